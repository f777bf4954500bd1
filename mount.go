package bailey

import "io/fs"

// Mount is a file or folder of the host that a sandbox sees.
type Mount struct {
	Source   string `json:"source"`   // absolute and clean, no symlink in it
	Target   string `json:"target"`   // absolute and clean, inside the sandbox
	Writable bool   `json:"writable"` // false: read-only, nosuid, nodev
	Owned    bool   `json:"owned"`    // the caller's own: a root caller's sandbox, which has another id, owns it too
	Dcache   int    `json:"dcache"`   // gVisor's dentry cache for it; 0 is the default of 1000
	Why      string `json:"why"`      // for the header of the run; empty means not worth a word
	Is       FileID `json:"is"`       // what must lie at Source when it is mounted; the zero value takes what is there
}

// FileID tells one file or folder of the host from any other that lies at its
// path later, as stat(2) does. The zero value is none.
type FileID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// Tmpfs is a memory file system of a sandbox, owned by its user.
type Tmpfs struct {
	Target string      `json:"target"`
	Bytes  int64       `json:"bytes"`
	Mode   fs.FileMode `json:"mode"` // permission bits, sticky allowed
}

// File is a generated file of the sandbox's root file system (read-only
// there) or of one of its tmpfs.
type File struct {
	Path string      `json:"path"`
	Mode fs.FileMode `json:"mode"`
	Data []byte      `json:"data"`
}

// Link is a generated symbolic link of the root file system.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// Shadow is a path of the workspace that the sandbox sees as a private copy:
// it may change the copy, the host's stays as it is. See ADR 0005.
type Shadow struct {
	Path  string `json:"path"`  // absolute, exists on the host, no symlink in it
	Dir   bool   `json:"dir"`   // a folder with everything below; else one regular file
	Files []File `json:"files"` // contents at start: paths relative to Path for a Dir, one File with Path "" otherwise
}
