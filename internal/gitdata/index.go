package gitdata

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// MaxIndexBytes is the index of more than a million files.
const MaxIndexBytes = 128 << 20

// ErrIndex is the cause of an index that cannot be read, or could be read in
// two ways.
var ErrIndex = errors.New("not a git index")

// Modes of index entries (index-format, "32-bit mode").
const (
	modeType    = 0o170000
	modeSparse  = 0o040000
	modeLink    = 0o120000
	modeGitlink = 0o160000
)

// Index is what a git index says that can hurt the user's git.
type Index struct {
	Bad      []string // paths that git itself would never write: at most maxBadPaths of them
	Gitlinks []string // paths of submodules: in them git runs git
	Shared   string   // name of the file in the git folder that holds the rest; "" if none
}

// Limits of what is kept of an index.
const (
	maxBadPaths = 16
	maxGitlinks = 20_000
)

// ParseIndex reads an index of version 2, 3 or 4 (gitformat-index(5)), as
// git's read-cache.c does; hash is the length of an object name, 20 or 32.
//
// git believes what its own index says: a path in it is checked when an entry
// is made, not when one is read. So a hand-written index has the user's git
// write, remove and run whatever it names. Where two readers could come to
// other entries (the offset tables by which git reads a large index in
// parallel), the error is ErrIndex.
func ParseIndex(data []byte, hash int) (Index, error) {
	p := indexParser{data: data, hash: hash, pos: 0, version: 0, count: 0, name: nil, starts: nil, empty: false, index: Index{Bad: nil, Gitlinks: nil, Shared: ""}, visit: nil}
	return p.parse()
}

func (p *indexParser) parse() (Index, error) {
	if err := p.header(); err != nil {
		return Index{}, err
	}
	for i := range p.count {
		if err := p.entry(i); err != nil {
			return Index{}, err
		}
	}
	if err := p.extensions(); err != nil {
		return Index{}, err
	}
	if p.empty && p.index.Shared == "" {
		p.bad(nil)
	}
	if len(p.index.Gitlinks) > maxGitlinks {
		return Index{}, p.fail("too many submodules")
	}
	return p.index, nil
}

type indexParser struct {
	data    []byte
	hash    int
	pos     int
	version uint32
	count   uint32
	name    []byte     // of the last entry
	starts  []startsAt // of entries that can begin a block of the offset table
	empty   bool       // an entry has no name, as those have that replace one of a shared index
	index   Index
	visit   func(start int, flags, more uint16) // is called for each entry; may be nil
}

// startsAt is where an entry begins. A block's first entry may take nothing
// from the name before it, since a reader that begins there has none.
type startsAt struct {
	offset int
	alone  bool
}

func (p *indexParser) fail(what string) error {
	return fmt.Errorf("read index at %d: %s: %w", p.pos, what, ErrIndex)
}

// header reads signature, version and the number of entries.
func (p *indexParser) header() error {
	const size = 12
	if len(p.data) < size+p.hash || string(p.data[:4]) != "DIRC" {
		return p.fail("no header")
	}
	p.version = binary.BigEndian.Uint32(p.data[4:])
	p.count = binary.BigEndian.Uint32(p.data[8:])
	p.pos = size
	if p.version < 2 || p.version > 4 {
		return p.fail("unknown version")
	}
	if int64(p.count)*int64(p.fixed()) > int64(len(p.data)) {
		return p.fail("more entries than bytes")
	}
	p.starts = make([]startsAt, 0, p.count)
	return nil
}

// Sizes of the parts of an entry before its name.
const (
	statBytes   = 40
	modeOffset  = 24
	flagBytes   = 2
	nameMask    = 0x0fff
	extended    = 0x4000
	paddedTo    = 8
	blockHeader = 8
)

func (p *indexParser) fixed() int { return statBytes + p.hash + flagBytes }

// end is where the checksum begins: no entry or extension lies beyond.
func (p *indexParser) end() int { return len(p.data) - p.hash }

func (p *indexParser) entry(i uint32) error {
	start := p.pos
	if p.end()-start < p.fixed() {
		return p.fail("cut off")
	}
	mode := binary.BigEndian.Uint32(p.data[start+modeOffset:])
	flags := binary.BigEndian.Uint16(p.data[start+statBytes+p.hash:])
	p.pos += p.fixed()
	var more uint16
	if flags&extended != 0 {
		if p.version < 3 || p.end()-p.pos < flagBytes {
			return p.fail("flags of a later version")
		}
		more = binary.BigEndian.Uint16(p.data[p.pos:])
		p.pos += flagBytes
	}
	kept, err := p.prefix()
	if err != nil {
		return err
	}
	if err := p.takeName(kept, int(flags&nameMask), start); err != nil {
		return err
	}
	p.starts = append(p.starts, startsAt{offset: start, alone: i == 0 || kept == 0})
	if p.visit != nil {
		p.visit(start, flags, more)
	}
	p.judge(mode)
	return nil
}

// prefix returns how much of the last name this one begins with (version 4).
func (p *indexParser) prefix() (int, error) {
	if p.version < 4 {
		return 0, nil
	}
	strip, ok := p.varint()
	if !ok || strip > uint64(len(p.name)) {
		return 0, p.fail("malformed name")
	}
	return len(p.name) - int(strip), nil //nolint:gosec // no more than a name's length
}

// varint reads git's own form of number (varint.c, decode_varint).
func (p *indexParser) varint() (uint64, bool) {
	const most = 1 << 32
	var v uint64
	for i := 0; p.pos < p.end(); i++ {
		c := p.data[p.pos]
		p.pos++
		if i > 0 {
			v = (v + 1) << 7
		}
		v += uint64(c & 0x7f)
		if v > most {
			return 0, false
		}
		if c&0x80 == 0 {
			return v, true
		}
	}
	return 0, false
}

// takeName reads the rest of the name up to its NUL. A length in the flags
// that says otherwise would give two readers two names.
func (p *indexParser) takeName(kept, length, start int) error {
	if p.pos > p.end() {
		return p.fail("cut off")
	}
	n := bytes.IndexByte(p.data[p.pos:p.end()], 0)
	if n < 0 {
		return p.fail("name without an end")
	}
	if whole := kept + n; whole != length && (length != nameMask || whole < nameMask) {
		return p.fail("name of another length than it says")
	}
	p.name = append(p.name[:kept], p.data[p.pos:p.pos+n]...)
	p.pos += n + 1
	if p.version < 4 { // padded with NULs, at least one
		p.pos = start + (p.pos-1-start+paddedTo)/paddedTo*paddedTo
	}
	if p.pos > p.end() {
		return p.fail("cut off")
	}
	return nil
}

func (p *indexParser) judge(mode uint32) {
	switch {
	case len(p.name) == 0:
		p.empty = true
	case !validPath(p.name, mode):
		p.bad(p.name)
	case mode&modeType == modeGitlink && len(p.index.Gitlinks) <= maxGitlinks:
		p.index.Gitlinks = append(p.index.Gitlinks, string(p.name))
	}
}

func (p *indexParser) bad(name []byte) {
	if len(p.index.Bad) < maxBadPaths {
		p.index.Bad = append(p.index.Bad, string(name))
	}
}

// extensions reads what follows the entries. Of them "link" names a shared
// index; "EOIE" and "IEOT" say where entries lie, and have to agree with where
// they were found.
func (p *indexParser) extensions() error {
	entries := p.pos
	if err := p.endMarker(entries); err != nil {
		return err
	}
	for p.pos+blockHeader <= p.end() {
		name := string(p.data[p.pos : p.pos+4])
		size := int64(binary.BigEndian.Uint32(p.data[p.pos+4:]))
		p.pos += blockHeader
		if size > int64(p.end()-p.pos) {
			return p.fail("extension cut off")
		}
		body := p.data[p.pos : p.pos+int(size)]
		p.pos += int(size)
		if err := p.extension(name, body); err != nil {
			return err
		}
	}
	return nil
}

func (p *indexParser) extension(name string, body []byte) error {
	switch {
	case name == "link":
		return p.link(body)
	case name == "IEOT":
		return p.blocks(body)
	case name == "sdir", name[0] >= 'A' && name[0] <= 'Z': // may be passed over, says git
		return nil
	}
	return p.fail("unknown extension")
}

// endMarker checks the extension by which git finds the others without reading
// the entries: it is looked for at the very end only (read_eoie_extension).
func (p *indexParser) endMarker(entries int) error {
	size := blockHeader + 4 + p.hash
	at := p.end() - size
	if at < 0 || string(p.data[at:at+4]) != "EOIE" {
		return nil
	}
	if offset := binary.BigEndian.Uint32(p.data[at+blockHeader:]); int64(offset) != int64(entries) {
		return p.fail("entries end elsewhere than it says")
	}
	return nil
}

// blocks checks the offset table against the entries as they were read.
func (p *indexParser) blocks(body []byte) error {
	if len(body) < 4 || len(body)%blockHeader != 4 {
		return p.fail("malformed offset table")
	}
	var n int64
	for b := body[4:]; len(b) > 0; b = b[blockHeader:] {
		offset, count := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if n >= int64(len(p.starts)) || !p.starts[n].alone || int64(p.starts[n].offset) != int64(offset) {
			return p.fail("entries begin elsewhere than it says")
		}
		n += int64(count)
	}
	if n != int64(len(p.starts)) {
		return p.fail("other entries than it says")
	}
	return nil
}

func (p *indexParser) link(body []byte) error {
	if len(body) < p.hash {
		return p.fail("malformed link")
	}
	if base := body[:p.hash]; len(bytes.Trim(base, "\x00")) > 0 {
		p.index.Shared = "sharedindex." + hex.EncodeToString(base)
	}
	return nil
}
