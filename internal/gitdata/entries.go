package gitdata

import (
	"encoding/binary"
	"encoding/hex"
	"time"
)

// IndexEntry is a file of an index, with what git knew of it when it last
// compared it. Times, sizes and numbers are cut to 32 bits, as git cuts them.
type IndexEntry struct {
	Path         string
	Mode         uint32 // as in a tree: 0o100644, 0o100755, 0o120000, 0o160000
	ID           string // hexadecimal object id
	Changed      time.Time
	Modified     time.Time
	Dev, Ino     uint32
	UID, GID     uint32
	Size         uint32
	Stage        int  // above 0 for a path that is in conflict
	Unchanged    bool // the user told git not to look (assume-unchanged)
	SkipWorktree bool // left out of the work tree by a sparse checkout
	IntentToAdd  bool
}

// Bits of an entry's flags (gitformat-index(5)).
const (
	assumeUnchanged = 0x8000
	stageMask       = 0x3000
	stageShift      = 12
	skipWorktree    = 0x4000
	intentToAdd     = 0x2000
)

// ParseEntries is ParseIndex that returns the entries too. Those of a shared
// index, which the file only names, are not among them.
func ParseEntries(data []byte, hash int) ([]IndexEntry, Index, error) {
	return FindEntries(data, hash, func([]byte) bool { return true })
}

// FindEntries is ParseEntries for the entries of some paths only.
func FindEntries(data []byte, hash int, want func(path []byte) bool) ([]IndexEntry, Index, error) {
	var list []IndexEntry
	p := indexParser{data: data, hash: hash}
	p.visit = func(start int, flags, more uint16) {
		if !want(p.name) {
			return
		}
		at := func(word int) uint32 { return binary.BigEndian.Uint32(data[start+4*word:]) }
		list = append(list, IndexEntry{
			Path:    string(p.name),
			Changed: time.Unix(int64(at(0)), int64(at(1))), Modified: time.Unix(int64(at(2)), int64(at(3))),
			Dev: at(4), Ino: at(5), Mode: at(6), UID: at(7), GID: at(8), Size: at(9),
			ID:        hex.EncodeToString(data[start+statBytes : start+statBytes+hash]),
			Stage:     int(flags & stageMask >> stageShift),
			Unchanged: flags&assumeUnchanged != 0, SkipWorktree: more&skipWorktree != 0, IntentToAdd: more&intentToAdd != 0,
		})
	}
	index, err := p.parse()
	if err != nil {
		return nil, Index{}, err
	}
	return list, index, nil
}
