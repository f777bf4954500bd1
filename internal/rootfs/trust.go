package rootfs

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the name that OpenSSL looks a certificate up by; nothing rests on it
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pavlo-v-chernykh/keystore-go/v4"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/nssdb"
)

// Where what a sandbox trusts is, when TLS of it is opened. What programs read
// are links to these.
const (
	trustDir  = "/etc/ssl/bailey"
	ownRoot   = trustDir + "/root.pem"  // the sandbox's own root, and those of the user's network
	allRoots  = trustDir + "/roots.pem" // the host's, and that one
	javaRoots = trustDir + "/cacerts"   // the same for Java
)

// Limits of what is copied of the host's trust stores.
const (
	maxBundle       = 4 << 20 // bytes
	maxTrustTotal   = 8 << 20 // bytes
	maxTrustEntries = 4096
	maxTrustDepth   = 4
)

// isTrust names the folders and files of /etc by which programs know
// whom to trust: with a root of its own a sandbox gets private ones.
func isTrust(path string) bool {
	switch path {
	case "/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem",
		"/etc/pki/ca-trust/extracted", "/etc/ca-certificates/extracted":
		return true
	}
	return false
}

// isBundle names files that hold every root as PEM, in the distributions there
// are.
func isBundle(name string) bool {
	switch name {
	case "ca-certificates.crt", "ca-bundle.crt", "ca-bundle.pem", "cert.pem", "cacert.pem", "tls-ca-bundle.pem":
		return true
	}
	return false
}

// isJavaStore names the files that hold every root for Java.
func isJavaStore(name string) bool { return name == "cacerts" || name == "java-cacerts.jks" }

// bundles are where the host may have all its roots in one file.
func bundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	}
}

// trust builds what a sandbox trusts: what the host does, the root with which
// its own TLS is opened, and those of the user's network.
type trust struct {
	*builder
	roots   []anchor // the sandbox's own first, if it has one
	left    int64    // bytes that may still be copied
	entries int      // likewise
	java    bool     // the host has a store for Java
}

// anchor is a certificate that is trusted beside the host's.
type anchor struct {
	*x509.Certificate

	hash string // by which OpenSSL finds it in a folder; empty: it has a subject that we cannot hash
	file string // that holds it, and nothing before it
}

func (a anchor) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: nil, Bytes: a.Raw})
}

// newTrust returns nil if there is nobody to trust beside those that the host
// does.
func newTrust(b *builder, root []byte, extra [][]byte) (*trust, error) {
	t := &trust{builder: b, roots: nil, left: maxTrustTotal, entries: maxTrustEntries, java: false}
	ders := extra
	if root != nil {
		ders = append([][]byte{root}, extra...)
	}
	if len(ders) == 0 {
		return nil, nil //nolint:nilnil // nothing to trust
	}
	for i, der := range ders {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("read a root that the sandbox is to trust: %w", err)
		}
		hash, err := subjectHash(cert.RawSubject)
		if err != nil && i == 0 && root != nil {
			return nil, err
		}
		file := ownRoot // which begins with it
		if i > 0 {
			file = fmt.Sprintf("%s/root-%d.pem", trustDir, i)
		}
		t.roots = append(t.roots, anchor{cert, hash, file})
	}
	return t, nil
}

// place puts a private folder or file where the host has path.
func (t *trust) place(path string) {
	real, _, err := t.tree.resolve(path)
	switch {
	case err != nil:
	case !t.tree.isDir(real):
		if isBundle(filepath.Base(path)) {
			t.link(path, allRoots)
		}
	case real != path && strings.HasPrefix(real, "/etc/"):
		t.folder(real, real, 0)
		t.link(path, real)
	default:
		t.folder(real, path, 0)
	}
}

// folder rebuilds the host's folder from as the sandbox's folder to: links as
// they are, small files as copies, and in the place of stores our own.
func (t *trust) folder(from, to string, depth int) {
	entries, err := t.tree.list(from)
	if err != nil || depth > maxTrustDepth {
		return
	}
	hashed := to == "/etc/ssl/certs"
	taken := map[string]bool{}
	for _, e := range entries {
		if t.entries--; t.entries < 0 {
			return
		}
		src, dst := filepath.Join(from, e.Name), filepath.Join(to, e.Name)
		taken[e.Name] = true
		hashed = hashed || hashName().MatchString(e.Name)
		switch {
		case isBundle(e.Name):
			t.link(dst, allRoots)
		case isJavaStore(e.Name):
			t.link(dst, javaRoots)
			t.java = true
		case e.Type.IsDir():
			t.folder(src, dst, depth+1)
		case e.Type.IsRegular():
			t.copy(src, dst)
		default:
			t.copyLink(src, dst)
		}
	}
	if hashed {
		t.linkHash(to, taken)
	}
}

// hashName is what OpenSSL calls a link to a root in a folder (openssl-rehash(1)).
var hashName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{8}\.[0-9]$`) })

// linkHash makes the root one of a folder's.
func (t *trust) linkHash(dir string, taken map[string]bool) {
	for _, root := range t.roots {
		for i := range 10 {
			if name := root.hash + "." + strconv.Itoa(i); root.hash != "" && !taken[name] {
				taken[name] = true
				t.link(filepath.Join(dir, name), root.file)
				break
			}
		}
	}
}

func (t *trust) copyLink(src, dst string) {
	target, err := t.tree.linkTarget(src)
	if err != nil || target == "" {
		return
	}
	if !filepath.IsAbs(target) && src != dst {
		target = filepath.Join(filepath.Dir(src), target)
	}
	t.link(dst, target)
}

func (t *trust) copy(src, dst string) {
	const everybody = 0o004
	data, err := t.tree.read(src, min(maxEtcFile, t.left), everybody)
	if err != nil {
		return
	}
	t.left -= int64(len(data))
	t.plan.Files = append(t.plan.Files, bailey.File{Path: dst, Mode: 0o644, Data: data})
}

// finish writes the stores themselves, and returns the variables for programs
// that look nowhere else.
func (t *trust) finish(tools []Tool) (map[string]string, error) {
	var own []byte
	for _, root := range t.roots {
		own = append(own, root.pem()...)
		if root.file != ownRoot {
			t.file(root.file, string(root.pem()))
		}
	}
	hosts := t.hostRoots()
	t.file(ownRoot, string(own))
	t.file(allRoots, string(slices.Concat(hosts, []byte("\n"), own)))
	if !t.tree.exists("/etc/ssl/certs") { // where Go and others look first
		t.link("/etc/ssl/certs/ca-certificates.crt", allRoots)
		t.linkHash("/etc/ssl/certs", map[string]bool{})
	}
	if err := t.nss(); err != nil {
		return nil, err
	}
	env := trustVariables()
	elsewhere := t.javaElsewhere(tools)
	if elsewhere {
		env["JAVA_TOOL_OPTIONS"] = "-Djavax.net.ssl.trustStore=" + javaRoots + " -Djavax.net.ssl.trustStorePassword=" + javaPassword
	}
	if !t.java && !elsewhere {
		return env, nil
	}
	store, err := javaStore(hosts, t.roots)
	if err != nil {
		return nil, err
	}
	t.plan.Files = append(t.plan.Files, bailey.File{Path: javaRoots, Mode: 0o644, Data: store})
	return env, nil
}

// hostRoots returns all that the host trusts, as PEM.
func (t *trust) hostRoots() []byte {
	const everybody = 0o004
	for _, path := range bundles() {
		real, _, err := t.tree.resolve(path)
		if err != nil {
			continue
		}
		if data, err := t.tree.read(real, maxBundle, everybody); err == nil {
			return data
		}
	}
	return nil
}

// trustVariables are those that the programs of the title read. All but Node's
// and Deno's stand in the place of the program's own list.
func trustVariables() map[string]string {
	env := map[string]string{"NODE_EXTRA_CA_CERTS": ownRoot, "DENO_CERT": ownRoot}
	for _, name := range []string{
		"SSL_CERT_FILE",                    // OpenSSL, Go, Ruby, httpx, uv, rustls-native-certs
		"NIX_SSL_CERT_FILE",                // OpenSSL of Nix
		"CURL_CA_BUNDLE",                   // curl
		"REQUESTS_CA_BUNDLE",               // Python's requests
		"PIP_CERT",                         // pip, which has its own
		"GIT_SSL_CAINFO",                   // git
		"AWS_CA_BUNDLE",                    // the AWS CLI and SDKs
		"CARGO_HTTP_CAINFO",                // cargo
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", // gRPC's C core
		"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
		"HEX_CACERTS_PATH",
		"PERL_LWP_SSL_CA_FILE",
	} {
		env[name] = allRoots
	}
	return env
}

// nss writes the database of the user's certificates where programs of NSS look
// (sql:$HOME/.pki/nssdb): Chromium's headless shell, for one, has no policies.
func (t *trust) nss() error {
	const dir = HomeDir + "/.pki/nssdb"
	files, err := nssdb.New(dir, t.roots[0].Certificate, t.roots[0].Subject.CommonName) // it holds one
	if err != nil {
		return fmt.Errorf("make the database of certificates for NSS: %w", err)
	}
	for name, data := range files {
		t.plan.Home = append(t.plan.Home, bailey.File{Path: dir + "/" + name, Mode: 0o600, Data: data})
	}
	return nil
}

// javaElsewhere reports whether there is a Java inside whose store is a file of
// its own, which cannot be put in another's place.
func (t *trust) javaElsewhere(tools []Tool) bool {
	var homes []string
	for _, tool := range tools {
		for _, m := range tool.Mounts {
			homes = append(homes, m.Target)
		}
	}
	if entries, err := t.tree.list("/usr/lib/jvm"); err == nil {
		for _, e := range entries {
			homes = append(homes, "/usr/lib/jvm/"+e.Name)
		}
	}
	for _, home := range homes {
		for _, sub := range []string{"/lib/security/cacerts", "/jre/lib/security/cacerts"} {
			if real, _, err := t.tree.resolve(home + sub); err == nil && !strings.HasPrefix(real, "/etc/") {
				return true
			}
		}
	}
	return false
}

// javaPassword is what every Java installation has for its roots: it keeps no
// secret.
const javaPassword = "changeit"

// javaStore returns some roots as a key store of Java (JKS, which every version
// reads).
func javaStore(bundle []byte, own []anchor) ([]byte, error) {
	store := keystore.New(keystore.WithOrderedAliases())
	add := func(alias string, der []byte) error {
		return store.SetTrustedCertificateEntry(alias, keystore.TrustedCertificateEntry{
			CreationTime: time.Unix(0, 0), Certificate: keystore.Certificate{Type: "X.509", Content: der},
		})
	}
	var err error
	for i, root := range own {
		name := "bailey"
		if i > 0 {
			name += "-" + strconv.Itoa(i)
		}
		err = errors.Join(err, add(name, root.Raw))
	}
	for i := 0; err == nil; i++ {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		if block.Type == "CERTIFICATE" {
			err = add("host-"+strconv.Itoa(i), block.Bytes)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make a key store for Java: %w", err)
	}
	var out bytes.Buffer
	if err := store.Store(&out, []byte(javaPassword)); err != nil {
		return nil, fmt.Errorf("make a key store for Java: %w", err)
	}
	return out.Bytes(), nil
}

// subjectHash is OpenSSL's hash of a subject (X509_NAME_hash): the first four
// bytes of the SHA-1 of its canonical form, in which each text is in UTF-8, in
// lower case and without needless spaces, and the outer sequence has no header.
// The subject is one of ours: of plain ASCII.
func subjectHash(subject []byte) (string, error) {
	var name []asn1.RawValue
	if rest, err := asn1.Unmarshal(subject, &name); err != nil || len(rest) > 0 {
		return "", fmt.Errorf("read the subject of the sandbox's root: %w", err)
	}
	sum := sha1.New() //nolint:gosec // see import
	for _, set := range name {
		var parts []struct {
			Type  asn1.ObjectIdentifier
			Value string
		}
		if _, err := asn1.UnmarshalWithParams(set.FullBytes, &parts, "set"); err != nil {
			return "", fmt.Errorf("read the subject of the sandbox's root: %w", err)
		}
		type part struct {
			Type  asn1.ObjectIdentifier
			Value string `asn1:"utf8"`
		}
		var canonical []part
		for _, p := range parts {
			canonical = append(canonical, part{p.Type, strings.Join(strings.Fields(strings.ToLower(p.Value)), " ")})
		}
		der, err := asn1.MarshalWithParams(canonical, "set")
		if err != nil {
			return "", fmt.Errorf("hash the subject of the sandbox's root: %w", err)
		}
		_, _ = sum.Write(der)
	}
	return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(sum.Sum(nil))), nil
}
