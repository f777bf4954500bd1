package gitdata

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's name of an object, no defence
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Limits of what is read of a repository's objects.
const (
	maxPackBytes   = 512 << 20 // of one pack
	maxObjectBytes = 16 << 20  // of one object
	maxObjects     = 1_000_000
	maxDeltaDepth  = 4096 // git's own is 50 (pack.depth)
	maxDeltaCache  = 64 << 20
)

// Object is one that a repository keeps: reachable or not.
type Object struct {
	Name string // its hash, in hexadecimal digits
	Type string // blob, tree, commit or tag
	Data []byte // of the caller until it returns
}

// ErrObjects is the cause where not all of the objects could be read.
var ErrObjects = errors.New("not all objects of the repository could be read")

// Objects reads all objects of the git folder that is open as dir, loose ones
// and those of packs, and calls each. It runs no git, follows no link and no
// alternates. What is too large or damaged is left out; then the error is
// ErrObjects. An object that is kept twice comes twice.
func Objects(dir *os.File, each func(Object) error) error {
	if ReadFormat(dir, dir.Name()).Hash != sha1.Size {
		return fmt.Errorf("objects in a format that is not known: %w", ErrObjects)
	}
	r := &objects{dir: dir, each: each, left: maxObjects}
	if err := r.loose(); err != nil {
		return err
	}
	if err := r.packs(); err != nil {
		return err
	}
	if r.missed > 0 {
		return fmt.Errorf("%d left out: %w", r.missed, ErrObjects)
	}
	return nil
}

type objects struct {
	dir    *os.File
	each   func(Object) error
	left   int
	missed int
}

func (r *objects) found(kind string, data []byte) error {
	if r.left--; r.left < 0 {
		return fmt.Errorf("more than %d: %w", maxObjects, ErrObjects)
	}
	return r.each(Object{Name: HashObject(kind, data), Type: kind, Data: data})
}

// HashObject is git's name for an object (SHA-1).
func HashObject(kind string, data []byte) string {
	h := sha1.New() //nolint:gosec // git's name of an object, no defence
	_, _ = fmt.Fprintf(h, "%s %d\x00", kind, len(data))
	_, _ = h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// loose reads objects/xx/….
func (r *objects) loose() error {
	for i := range 256 {
		top := fmt.Sprintf("objects/%02x", i)
		entries, err := beneath.ReadDirSameDevice(r.dir, top, maxObjects)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				r.missed++
			}
			continue
		}
		for _, e := range entries {
			if err := r.looseOne(path.Join(top, e.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *objects) looseOne(name string) error {
	packed, _, err := beneath.ReadFile(r.dir, name, maxObjectBytes)
	if err != nil {
		r.missed++
		return nil //nolint:nilerr // counted
	}
	data, err := inflate(bytes.NewReader(packed), maxObjectBytes+64)
	head, body, ok := bytes.Cut(data, []byte{0})
	kind, _, spaced := strings.Cut(string(head), " ")
	if err != nil || !ok || !spaced {
		r.missed++
		return nil //nolint:nilerr // counted
	}
	return r.found(kind, body)
}

func inflate(from io.Reader, most int64) ([]byte, error) {
	z, err := zlib.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("inflate: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(z, most+1))
	if err == nil && int64(len(data)) > most {
		err = beneath.ErrStrange
	}
	return data, err
}

func (r *objects) packs() error {
	entries, err := beneath.ReadDirSameDevice(r.dir, "objects/pack", maxLayoutDirs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.missed++
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, ".pack") {
			continue
		}
		data, _, err := beneath.ReadFile(r.dir, path.Join("objects/pack", e.Name), maxPackBytes)
		if err != nil {
			r.missed++
			continue
		}
		p := &pack{objects: r, data: data, at: map[string]int{}, made: map[int]whole{}}
		if err := p.read(); err != nil {
			return err
		}
	}
	return nil
}

// pack reads one (gitformat-pack(5)): first where each object is, then each.
type pack struct {
	*objects

	data    []byte
	entries []entry
	index   map[int]int    // offset → entry
	at      map[string]int // hash → entry, as far as known
	made    map[int]whole  // entry → what it holds
	kept    int            // bytes of those
}

// whole is an object as it is, a delta applied.
type whole struct {
	kind string
	data []byte
}

// entry is one object of a pack as it is stored.
type entry struct {
	kind   int // 1 to 4: commit, tree, blob, tag; 6 and 7: a delta
	size   int
	body   int    // where its compressed bytes begin
	base   int    // of a delta by offset: that of its base
	ref    string // of a delta by hash: its base
	offset int
}

const (
	deltaByOffset = 6
	deltaByHash   = 7
)

func (p *pack) read() error {
	if len(p.data) < 12 || string(p.data[:4]) != "PACK" {
		p.missed++
		return nil
	}
	p.scan(int(binary.BigEndian.Uint32(p.data[8:12])))
	p.index = make(map[int]int, len(p.entries))
	for i, e := range p.entries {
		p.index[e.offset] = i
	}
	var later []int
	for i := range p.entries {
		if p.entries[i].kind == deltaByHash && !p.known(p.entries[i].ref) {
			later = append(later, i)
			continue
		}
		if err := p.one(i); err != nil {
			return err
		}
	}
	for _, i := range later { // their bases came behind them
		if err := p.one(i); err != nil {
			return err
		}
	}
	return nil
}

func (p *pack) known(ref string) bool {
	_, ok := p.at[ref]
	return ok
}

func (p *pack) one(i int) error {
	w, ok := p.whole(i, 0)
	if !ok {
		p.missed++
		return nil
	}
	p.at[HashObject(w.kind, w.data)] = i
	return p.found(w.kind, w.data)
}

// scan finds the entries: where one ends is known when it is inflated.
func (p *pack) scan(count int) {
	at := 12
	for range min(count, maxObjects) {
		e, ok := p.header(at)
		if !ok {
			p.missed++
			return
		}
		r := bytes.NewReader(p.data[e.body:])
		z, err := zlib.NewReader(r)
		if err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(z, maxPackBytes))
		}
		if err != nil {
			p.missed++
			return
		}
		p.entries = append(p.entries, e)
		at = len(p.data) - r.Len()
	}
}

func (p *pack) header(at int) (e entry, ok bool) { //nolint:gocognit // the format as git writes it, step by step
	e.offset = at
	next := func() (byte, bool) {
		if at >= len(p.data) {
			return 0, false
		}
		at++
		return p.data[at-1], true
	}
	b, ok := next()
	if !ok {
		return e, false
	}
	e.kind, e.size = int(b>>4)&7, int(b&15)
	for shift := 4; b&0x80 != 0 && shift < 40; shift += 7 {
		if b, ok = next(); !ok {
			return e, false
		}
		e.size |= int(b&0x7f) << shift
	}
	switch e.kind {
	case 1, 2, 3, 4:
	case deltaByOffset:
		if b, ok = next(); !ok {
			return e, false
		}
		back := int(b & 0x7f)
		for n := 0; b&0x80 != 0 && n < 6; n++ {
			if b, ok = next(); !ok {
				return e, false
			}
			back = (back+1)<<7 | int(b&0x7f)
		}
		e.base = e.offset - back
	case deltaByHash:
		if at+20 > len(p.data) {
			return e, false
		}
		e.ref = hex.EncodeToString(p.data[at : at+20])
		at += 20
	default:
		return e, false
	}
	e.body = at
	return e, true
}

// whole returns what entry i holds.
func (p *pack) whole(i, depth int) (w whole, ok bool) { //nolint:gocognit // the format as git writes it, step by step
	if w, ok := p.made[i]; ok {
		return w, true
	}
	e := p.entries[i]
	if depth > maxDeltaDepth || e.size > maxObjectBytes {
		return w, false
	}
	data, err := inflate(bytes.NewReader(p.data[e.body:]), maxObjectBytes)
	if err != nil {
		return w, false
	}
	switch e.kind {
	case deltaByOffset, deltaByHash:
		base, found := p.index[e.base]
		if e.kind == deltaByHash {
			base, found = p.at[e.ref]
		}
		if !found || base == i {
			return w, false
		}
		from, ok := p.whole(base, depth+1)
		if !ok {
			return w, false
		}
		w.kind = from.kind
		if w.data, ok = applyDelta(from.data, data, maxObjectBytes); !ok {
			return w, false
		}
	default:
		w = whole{[]string{"", "commit", "tree", "blob", "tag"}[e.kind], data}
	}
	if p.kept+len(w.data) <= maxDeltaCache {
		p.kept += len(w.data)
		p.made[i] = w
	}
	return w, true
}

// applyDelta makes an object of another (gitformat-pack(5), "Deltified
// representation").
func applyDelta(base, delta []byte, most int) ([]byte, bool) { //nolint:gocognit // the format as git writes it, step by step
	from, delta, ok := varint(delta)
	if !ok || from != len(base) {
		return nil, false
	}
	to, delta, ok := varint(delta)
	if !ok || to > most {
		return nil, false
	}
	out := make([]byte, 0, to)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op&0x80 == 0 {
			n := int(op)
			if n == 0 || n > len(delta) || len(out)+n > to {
				return nil, false
			}
			out, delta = append(out, delta[:n]...), delta[n:]
			continue
		}
		offset, size := 0, 0
		for bit := range 7 {
			if op&(1<<bit) == 0 {
				continue
			}
			if len(delta) == 0 {
				return nil, false
			}
			if bit < 4 {
				offset |= int(delta[0]) << (8 * bit)
			} else {
				size |= int(delta[0]) << (8 * (bit - 4))
			}
			delta = delta[1:]
		}
		if size == 0 {
			size = 0x10000
		}
		if offset+size > len(base) || len(out)+size > to {
			return nil, false
		}
		out = append(out, base[offset:offset+size]...)
	}
	return out, len(out) == to
}

func varint(b []byte) (n int, rest []byte, ok bool) {
	for i, c := range b {
		if i > 5 {
			return 0, nil, false
		}
		n |= int(c&0x7f) << (7 * i)
		if c&0x80 == 0 {
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}

// TreeEntry is one line of a tree object.
type TreeEntry struct{ Name, Object string }

// ParseTree reads a tree object, as far as it is one.
func ParseTree(data []byte) (list []TreeEntry) {
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		_, name, spaced := strings.Cut(string(head), " ")
		if !ok || !spaced || len(rest) < 20 {
			return list
		}
		list = append(list, TreeEntry{Name: name, Object: hex.EncodeToString(rest[:20])})
		data = rest[20:]
	}
	return list
}
