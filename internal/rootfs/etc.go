package rootfs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Limits of what is copied out of /etc into the generated one.
const (
	maxEtcFile   = 512 << 10
	maxEtcTotal  = 2 << 20
	maxEtcFolder = 64 // files
)

// isCopied names the files of /etc that programs need and that hold no secret
// and nothing of this machine. Not taken on purpose: gitconfig, npmrc,
// pip.conf, wgetrc, environment, profile.d (credential helpers, tokens,
// proxies), machine-id and ssh (the host's identity), and what is generated.
func isCopied(name string) bool {
	switch name {
	case "debian_version", "gai.conf", "host.conf", "inputrc", "ld.so.cache", "ld.so.conf", "locale.alias",
		"locale.conf", "localtime", "lsb-release", "magic", "magic.mime", "mime.types", "netconfig", "networks",
		"os-release", "protocols", "rpc", "services", "shells", "timezone",
		"alpine-release", "arch-release", "fedora-release", "redhat-release":
		return true
	}
	return false
}

// isCopiedFolder names the small folders of /etc whose files are copied one
// by one; /etc/python3 and /etc/python3.11 are Debian's.
func isCopiedFolder(name string) bool {
	switch name {
	case "ld.so.conf.d", "terminfo", "perl", "R", "gss":
		return true
	}
	rest, ok := strings.CutPrefix(name, "python")
	return ok && strings.Trim(rest, "0123456789.") == ""
}

// isMountedFolder names the folders of /etc that are shown read-only as a
// whole: many files, all of them public.
func isMountedFolder(name string) bool {
	switch name {
	case "alternatives", "crypto-policies", "fonts", "java":
		return true
	}
	return strings.HasPrefix(name, "java-")
}

// etcParts are single files and folders further down.
func etcParts() []string {
	return []string{
		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl1.1/openssl.cnf",
		"/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf", "/etc/pki/tls/cert.pem", "/etc/pki/ca-trust/extracted", "/etc/pki/java", "/etc/pki/nssdb",
		"/etc/ca-certificates/extracted", "/etc/maven/m2.conf", "/etc/maven/logging",
	}
}

// etc copies and mounts what programs need of the host's /etc. What says whom
// to trust is made anew where there is somebody else to trust; nil: there is not.
func (b *builder) etc(trust *trust) error {
	entries, err := os.ReadDir(b.tree.host("/etc"))
	if err != nil {
		return bailey.WrapError(bailey.Unsupported, "read the host's /etc", err, "run bailey doctor")
	}
	c := etcCopy{builder: b, left: maxEtcTotal}
	present := make(map[string]bool, len(entries))
	for _, entry := range entries {
		name := entry.Name()
		present[name] = true
		path := "/etc/" + name
		switch {
		case isCopied(name):
			c.one(path)
		case isCopiedFolder(name):
			c.folder(path)
		case isMountedFolder(name):
			c.whole(path)
		}
	}
	for _, path := range etcParts() {
		switch top, _, _ := strings.Cut(path[len("/etc/"):], "/"); {
		case !present[top]:
		case trust != nil && isTrust(path):
			trust.place(path)
		default:
			c.one(path)
		}
	}
	return nil
}

type etcCopy struct {
	*builder
	left int64
}

// one shows a file or folder of /etc: a folder as a mount; a link as a link
// when its end is visible anyway, and as what it ends at otherwise; a file as
// a copy, if everybody may read it. Whatever is none of these is left out.
func (c *etcCopy) one(path string) {
	real, links, err := c.tree.resolve(path)
	if err != nil {
		return
	}
	switch {
	case len(links) > 0 && isSystem(real):
		c.link(path, real)
	case c.tree.isDir(real):
		c.whole(path)
	case sandbox.Within(real, "/etc") || isSystem(real):
		c.copy(path, real)
	}
}

// whole mounts a folder. One that is reached through a link is mounted where
// it really is, with the link beside it, so that links inside still lead
// where they should.
func (c *etcCopy) whole(path string) {
	real, _, err := c.tree.resolve(path)
	if err != nil || !c.tree.isDir(real) || !sandbox.Within(real, "/etc") || real == "/etc" {
		return
	}
	c.mount(real)
	if real != path {
		c.link(path, real)
	}
}

// folder copies the files of a small folder, one level deep.
func (c *etcCopy) folder(path string) {
	if !c.tree.isDir(path) {
		return
	}
	entries, err := os.ReadDir(c.tree.host(path))
	if err != nil || len(entries) > maxEtcFolder {
		return
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			c.one(filepath.Join(path, entry.Name()))
		}
	}
}

func (c *etcCopy) copy(path, real string) {
	const everybody = 0o004 // what only root or a group may read stays with them
	data, err := c.tree.read(real, min(maxEtcFile, c.left), everybody)
	if err != nil {
		return
	}
	c.left -= int64(len(data))
	c.plan.Files = append(c.plan.Files, bailey.File{Path: path, Mode: 0o644, Data: data})
}

// isSystem reports whether a path lies in what every sandbox sees.
func isSystem(path string) bool {
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"} {
		if sandbox.Within(path, dir) {
			return true
		}
	}
	return false
}

// shell returns the login shell inside.
func (b *builder) shell() string {
	for _, sh := range []string{"/bin/bash", "/usr/bin/bash", "/bin/sh"} {
		if real, _, err := b.tree.resolve(sh); err == nil && isSystem(real) {
			return sh
		}
	}
	return "/bin/sh"
}

// identity writes the files that say who and where the sandbox is.
func (b *builder) identity(h Host) {
	uid, gid := b.plan.UID, b.plan.GID
	users := fmt.Sprintf("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n%s:x:%d:%d::%s:%s\n", UserName, uid, gid, HomeDir, b.shell())
	group := fmt.Sprintf("root:x:0:\n%s:x:%d:\n", UserName, gid)
	if h.AsRoot {
		users, group = fmt.Sprintf("root:x:0:0:root:%s:%s\n", HomeDir, b.shell()), "root:x:0:\n"
	}
	if uid != overflowID {
		users += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	}
	if gid != overflowID {
		group += "nogroup:x:65534:\n"
	}
	b.file("/etc/passwd", users)
	b.file("/etc/group", group)
	b.file("/etc/hostname", h.Hostname+"\n")
	b.file("/etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"+
		"127.0.0.1\t"+h.Hostname+"\n::1\t"+h.Hostname+"\n")
	// The host's own would set PATH anew in every login shell.
	b.file("/etc/profile", "if [ \"${PS1-}\" ] && [ \"${BASH-}\" ] && [ -r /etc/bash.bashrc ]; then\n\t. /etc/bash.bashrc\nfi\n")
	b.file("/etc/bash.bashrc", "[ -z \"${PS1-}\" ] && return\nshopt -s checkwinsize\nPS1='\\u@\\h:\\w\\$ '\n")
	b.names(h)
	b.file("/etc/gitconfig", gitConfig(h))
	b.browsers(h.Root)
}

// browsers writes what browsers want to know, as the policies of an
// administrator. They add an extension to every TLS connection that can hide
// another name (encrypted_client_hello, RFC 9849), used or not, and a proxy that
// goes by names has to refuse it: it is switched off. And root, where there is
// one, is trusted (Chromium 131 and later). Chromium reads a folder by its make;
// Firefox has one file for all of it.
func (b *builder) browsers(root []byte) {
	chromium := map[string]any{"EncryptedClientHelloEnabled": false}
	firefox := map[string]any{"DisableEncryptedClientHello": true}
	if root != nil {
		chromium["CACertificates"] = [][]byte{root}
		firefox["Certificates"] = map[string]any{"Install": []string{ownRoot}}
	}
	for _, dir := range []string{"/etc/chromium", "/etc/chromium-browser", "/etc/opt/chrome", "/etc/opt/chrome_for_testing", "/etc/opt/edge", "/etc/brave"} {
		b.json(dir+"/policies/managed/sandbox.json", chromium)
	}
	b.json("/etc/firefox/policies/policies.json", map[string]any{"policies": firefox})
	if b.tree.isDir("/etc/chromium.d") {
		// Debian's chromium sources every file there, and fails without one.
		// The host's own hold keys, and flags that may name its proxy.
		b.file("/etc/chromium.d/sandbox", "# The host's own flags are not taken over.\n")
	}
}

// json writes a value of maps, lists, strings and booleans, which always encode.
func (b *builder) json(path string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic("bug: a policy does not encode: " + err.Error())
	}
	b.file(path, string(data)+"\n")
}

// overflowID is the kernel's number for an id that is not mapped
// (/proc/sys/kernel/overflowuid).
const overflowID = 65534

// names writes how names are looked up. Without a resolver glibc must not try
// any (it would wait five seconds), and others, which ask 127.0.0.1 when they
// find no server, must give up soon.
func (b *builder) names(h Host) {
	hosts, resolv := "files", "# This sandbox has no resolver.\noptions timeout:1 attempts:1\n"
	if h.Nameserver.IsValid() {
		hosts, resolv = "files dns", "nameserver "+h.Nameserver.WithZone("").String()+"\n"
	}
	b.file("/etc/resolv.conf", resolv)
	b.file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: "+hosts+
		"\nnetworks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\nnetgroup: files\n")
}
