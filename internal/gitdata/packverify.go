package gitdata

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sort"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// packHeader is how long that of a pack is.
const packHeader = 12

// packCheck makes each object of a pack as git does, and compares its hash with
// the name that the index gives it. An object is found by its place in the
// pack: objects are numbered by that here.
type packCheck struct {
	*packIndex

	ctx    context.Context //nolint:containedctx // of one call
	file   io.ReaderAt
	end    int64 // of the objects
	kind   []uint8
	body   []uint8 // how long the head of each is
	size   []int64
	child  []int32 // the first that is made of it; -1 for none
	next   []int32 // the next that is made of the same
	number []int32 // of a name: its object
	hashed int

	section *io.SectionReader
	from    *bufio.Reader
	z       io.ReadCloser
	buffer  []byte
}

// pack verifies a pack and its index.
func (v *verifier) pack(name string) error {
	i, err := v.index(name)
	if err != nil {
		return err
	}
	f, info, err := beneath.OpenFile(v.dir, name+".pack")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	head := make([]byte, packHeader)
	if n, _ := f.ReadAt(head, 0); n < packHeader || string(head[:4]) != "PACK" || int(binary.BigEndian.Uint32(head[8:])) != len(i.at) {
		return errForged
	}
	if err := v.whole(f, info.Size, i.pack); err != nil {
		return err
	}
	c := &packCheck{packIndex: i, ctx: v.ctx, file: f, end: info.Size - int64(v.hash), buffer: make([]byte, 64<<10)}
	if err := c.run(); err != nil {
		return v.broken(err)
	}
	return nil
}

func (c *packCheck) run() error {
	count := len(c.order)
	c.kind, c.body, c.size = make([]uint8, count), make([]uint8, count), make([]int64, count)
	c.child, c.next, c.number = make([]int32, count), make([]int32, count), make([]int32, count)
	for k, n := range c.order {
		c.number[n], c.child[k], c.next[k] = int32(k), -1, -1
	}
	c.from = bufio.NewReaderSize(nil, 64<<10)
	for k := range count {
		if err := c.first(k); err != nil {
			return err
		}
	}
	for k := range count {
		if c.kind[k] < deltaByOffset && c.child[k] >= 0 {
			if err := c.family(k); err != nil {
				return err
			}
		}
	}
	if c.hashed != count { // some are made of each other
		return errForged
	}
	return nil
}

func (c *packCheck) offset(k int) int64 { return c.at[c.order[k]] }

// stop is where the next object begins.
func (c *packCheck) stop(k int) int64 {
	if k+1 < len(c.order) {
		return c.offset(k + 1)
	}
	return c.end
}

// first reads the head of an object. What is no delta is hashed; of a delta it
// is noted what it is made of.
func (c *packCheck) first(k int) error {
	if k%256 == 0 && c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	from, to := c.offset(k), c.stop(k)
	if k == 0 && from != packHeader || to <= from || to > c.end {
		return errForged
	}
	head := make([]byte, min(to-from, maxObjectHead))
	if _, err := c.file.ReadAt(head, from); err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	h, ok := parseHead(head, c.hash)
	if !ok {
		return errForged
	}
	c.kind[k], c.body[k], c.size[k] = h.kind, uint8(h.length), h.size //nolint:gosec // at most maxObjectHead
	switch base := -1; h.kind {
	case deltaByHash:
		if n := c.find(h.ref); n >= 0 {
			base = int(c.number[n])
		}
		return c.madeOf(k, base)
	case deltaByOffset:
		at := from - h.back
		if b := sort.Search(len(c.order), func(j int) bool { return c.offset(j) >= at }); b < k && h.back > 0 && c.offset(b) == at {
			base = b
		}
		return c.madeOf(k, base)
	}
	sum := newHash(c.hash)
	_, _ = fmt.Fprintf(sum, "%s %d\x00", kindName(h.kind), h.size)
	if err := c.inflate(k, sum); err != nil {
		return err
	}
	return c.compare(k, sum.Sum(nil))
}

func kindName(kind uint8) string { return []string{"", "commit", "tree", "blob", "tag"}[kind] }

func (c *packCheck) madeOf(k, base int) error {
	if base < 0 || base == k {
		return errForged
	}
	c.next[k], c.child[base] = c.child[base], int32(k) //nolint:gosec // at most maxVerified
	return nil
}

func (c *packCheck) compare(k int, sum []byte) error {
	if !bytes.Equal(sum, c.name(int(c.order[k]))) {
		return errForged
	}
	c.hashed++
	return nil
}

// inflate writes what is compressed in an object. It has to be as long as it
// says, and to end where the next object begins.
func (c *packCheck) inflate(k int, to io.Writer) error {
	at := c.offset(k) + int64(c.body[k])
	c.section = io.NewSectionReader(c.file, at, c.stop(k)-at)
	c.from.Reset(c.section)
	if err := c.open(); err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{to}, timed{c.ctx, io.LimitReader(c.z, c.size[k]+1)}, c.buffer)
	if err != nil {
		return err
	}
	if n != c.size[k] || c.from.Buffered() > 0 {
		return errForged
	}
	if rest, _ := c.section.Seek(0, io.SeekCurrent); rest != c.section.Size() {
		return errForged
	}
	return nil
}

// open begins with what is compressed, with the memory of the one before.
func (c *packCheck) open() (err error) {
	if again, ok := c.z.(zlib.Resetter); ok {
		return again.Reset(c.from, nil)
	}
	c.z, err = zlib.NewReader(c.from)
	return err
}

func (c *packCheck) bytes(k int) ([]byte, error) {
	if c.size[k] > maxVerifiedBytes {
		return nil, errLarge
	}
	const soon = 1 << 20
	var b bytes.Buffer
	b.Grow(int(min(c.size[k], soon)))
	err := c.inflate(k, &b)
	return b.Bytes(), err
}

// kin is an object on the way from one that is whole to one that is made of it.
type kin struct {
	data []byte
	next int32 // of those that are made of it
}

// family hashes all that is made of an object that is whole.
func (c *packCheck) family(root int) error {
	data, err := c.bytes(root)
	if err != nil {
		return err
	}
	kind, held := kindName(c.kind[root]), len(data)
	way := []kin{{data, c.child[root]}}
	for len(way) > 0 {
		top := &way[len(way)-1]
		k := int(top.next)
		if k < 0 {
			held -= len(top.data)
			way = way[:len(way)-1]
			continue
		}
		top.next = c.next[k]
		data, err := c.made(k, top.data)
		if err != nil {
			return err
		}
		sum := newHash(c.hash)
		_, _ = fmt.Fprintf(sum, "%s %d\x00", kind, len(data))
		_, _ = sum.Write(data) // never fails
		if err := c.compare(k, sum.Sum(nil)); err != nil {
			return err
		}
		if c.child[k] < 0 {
			continue
		}
		if held += len(data); held > maxVerifiedBytes || len(way) > maxDeltaDepth {
			return errLarge
		}
		way = append(way, kin{data, c.child[k]})
	}
	return nil
}

func (c *packCheck) made(k int, of []byte) ([]byte, error) {
	delta, err := c.bytes(k)
	if err != nil {
		return nil, err
	}
	if _, rest, ok := varint(delta); ok {
		if to, _, ok := varint(rest); ok && to > maxVerifiedBytes {
			return nil, errLarge
		}
	}
	data, ok := applyDelta(of, delta, maxVerifiedBytes)
	if !ok {
		return nil, errForged
	}
	return data, nil
}

// maxObjectHead is longer than any head of an object in a pack.
const maxObjectHead = 64

type objectHead struct {
	kind   uint8
	size   int64
	back   int64  // of a delta by offset
	ref    []byte // of a delta by hash
	length int
}

// parseHead reads what stands before an object's compressed bytes
// (gitformat-pack(5)).
func parseHead(b []byte, hash int) (h objectHead, ok bool) {
	const most = 55 // bits that a shift leaves in an int64
	i := 0
	next := func() (c byte) {
		if i < len(b) {
			c = b[i]
		}
		i++
		return c
	}
	c := next()
	h.kind, h.size = c>>4&7, int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if shift > most {
			return h, false
		}
		c = next()
		h.size |= int64(c&0x7f) << shift
	}
	switch h.kind {
	case 1, 2, 3, 4:
	case deltaByOffset:
		c = next()
		h.back = int64(c & 0x7f)
		for c&0x80 != 0 {
			if h.back > 1<<most {
				return h, false
			}
			c = next()
			h.back = (h.back+1)<<7 | int64(c&0x7f)
		}
	case deltaByHash:
		if i+hash > len(b) {
			return h, false
		}
		h.ref = b[i : i+hash]
		i += hash
	default:
		return h, false
	}
	h.length = i
	return h, i <= len(b)
}
