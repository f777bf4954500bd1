package rootfs

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// localeVars are the variables of locale(7) that name a locale.
func localeVars() []string {
	return []string{
		"LANG", "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT",
		"LC_MESSAGES", "LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
	}
}

// language takes over the caller's locales as far as they exist inside: one
// that does not makes perl, bash and many others complain at each start. LANG
// falls back to C.UTF-8, which every libc of today has.
func language(t tree, h Host, env map[string]string) {
	known := make(map[string]bool, 2)
	for _, name := range localeVars() {
		v := h.env(name)
		if v == "" {
			continue
		}
		if _, asked := known[v]; !asked {
			known[v] = knownLocale(t, v)
		}
		if known[v] {
			env[name] = v
		}
	}
	if env["LANG"] == "" {
		env["LANG"] = "C.UTF-8"
	}
	if v := h.env("LANGUAGE"); v != "" && !strings.ContainsAny(v, "/ ") {
		env["LANGUAGE"] = v
	}
}

// knownLocale reports whether the host has the locale compiled, as a folder
// or in glibc's archive.
func knownLocale(t tree, name string) bool {
	switch name {
	case "C", "POSIX", "C.UTF-8", "C.utf8":
		return true
	}
	if !isPlainName(name) {
		return false
	}
	normal := normalLocale(name)
	for _, dir := range []string{name, normal} {
		if t.isDir(filepath.Join("/usr/lib/locale", dir)) {
			return true
		}
	}
	f, err := os.Open(t.host("/usr/lib/locale/locale-archive"))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	return inArchive(f, normal)
}

// normalLocale writes the codeset as glibc stores it: lower case, letters and
// digits only (en_US.UTF-8 becomes en_US.utf8).
func normalLocale(name string) string {
	base, rest, ok := strings.Cut(name, ".")
	if !ok {
		return name
	}
	codeset, modifier, hasModifier := strings.Cut(rest, "@")
	codeset = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(codeset))
	if hasModifier {
		codeset += "@" + modifier
	}
	return base + "." + codeset
}

// Layout of glibc's locale archive (locale/locarchive.h): a head of 14
// words, of which the third to fifth place the table of names, an open
// hash of {hash, offset of the name, offset of the record}.
const (
	archiveMagic  = 0xde020109
	archiveHead   = 56
	archiveEntry  = 12
	archiveProbes = 4096
)

// inArchive looks a normalised name up in a locale archive by its hash, so
// that an archive of 200 MB costs a few reads.
func inArchive(r io.ReaderAt, name string) bool {
	var head [archiveHead]byte
	if _, err := r.ReadAt(head[:], 0); err != nil || binary.NativeEndian.Uint32(head[:]) != archiveMagic {
		return false
	}
	table, size := binary.NativeEndian.Uint32(head[8:]), binary.NativeEndian.Uint32(head[16:])
	if size < 3 {
		return false
	}
	hash := archiveHash(name)
	step := 1 + hash%(size-2)
	for i, probe := hash%size, 0; probe < archiveProbes; i, probe = (i+step)%size, probe+1 {
		var entry [archiveEntry]byte
		if _, err := r.ReadAt(entry[:], int64(table)+int64(i)*archiveEntry); err != nil {
			return false
		}
		at := binary.NativeEndian.Uint32(entry[4:])
		if at == 0 {
			return false
		}
		if binary.NativeEndian.Uint32(entry[:]) == hash && stringAt(r, int64(at), name) {
			return true
		}
	}
	return false
}

func stringAt(r io.ReaderAt, at int64, want string) bool {
	buf := make([]byte, len(want)+1)
	_, err := r.ReadAt(buf, at)
	return err == nil && string(buf) == want+"\x00"
}

// archiveHash is compute_hashval of glibc (locale/hashval.h).
func archiveHash(key string) uint32 {
	hash := uint32(len(key))
	for i := range len(key) {
		hash = hash<<9 | hash>>(32-9)
		hash += uint32(key[i])
	}
	if hash == 0 {
		return ^uint32(0)
	}
	return hash
}
