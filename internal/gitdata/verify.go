package gitdata

import (
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // git's name of an object
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// FaultKind says what is wrong with a part of a store.
type FaultKind uint8

// The kinds of fault.
const (
	Unverified FaultKind = iota // it could not be found out in time, or at all
	Forged                      // it does not hold what its name says
	Derived                     // it appeared, git believes it, and makes it anew when it is gone
)

// Fault is one part of a store that is not to be read as it is.
type Fault struct {
	Path string   // below the store
	With []string // what goes with it
	Kind FaultKind
	What string // half a sentence
}

// Verify looks at what appeared or changed in the store that is open as dir
// since the mark: each object is made of what is stored, and hashed. Hash is
// how many bytes its names have. What ctx leaves no time for is Unverified.
// Nobody may write to the store meanwhile. It is cheap where nothing changed.
func (m StoreMark) Verify(ctx context.Context, dir *os.File, hash int) []Fault {
	v := verifier{ctx: ctx, dir: dir, hash: hash}
	v.changes(m.since(dir))
	return v.faults
}

type verifier struct {
	ctx    context.Context //nolint:containedctx // of one call
	dir    *os.File
	hash   int
	faults []Fault
}

// Causes of a Fault. Others are errors of the file system's.
var (
	errForged = errors.New("does not hold what its name says")
	errLarge  = errors.New("is too large to be verified")
)

func (v *verifier) changes(c changes) {
	const unread = "could not be looked at"
	for _, name := range c.missed {
		v.add(Unverified, name, unread)
	}
	for _, name := range c.strange {
		v.add(Forged, name, "is a link or no file")
	}
	if c.borrows {
		v.add(Forged, "info/alternates", "has git read objects elsewhere")
	}
	for _, name := range c.derived {
		v.add(Derived, name, "appeared")
	}
	for _, name := range c.touched {
		v.judge(name+".pack", v.same(name), name+".idx")
	}
	for _, name := range c.loose {
		if len(name) == 2*v.hash+1 { // git looks for no other
			v.judge(name, v.loose(name))
		}
	}
	for _, name := range v.bySize(c.packs) {
		v.judge(name+".idx", v.pack(name), name+".pack")
	}
	for _, name := range c.orders {
		v.judge(name, v.order(name))
	}
}

func (v *verifier) add(kind FaultKind, name, what string, with ...string) {
	v.faults = append(v.faults, Fault{Path: name, With: with, Kind: kind, What: what})
}

func (v *verifier) judge(name string, err error, with ...string) {
	switch {
	case err == nil:
	case errors.Is(err, errForged):
		v.add(Forged, name, errForged.Error(), with...)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		v.add(Unverified, name, "there was no time to verify it", with...)
	case errors.Is(err, errLarge), errors.Is(err, beneath.ErrStrange):
		v.add(Unverified, name, errLarge.Error(), with...)
	default:
		v.add(Unverified, name, "could not be read", with...)
	}
}

func (v *verifier) bySize(packs []string) []string {
	sizes := make(map[string]int64, len(packs))
	for _, name := range packs {
		if info, err := beneath.Lstat(v.dir, name+".pack"); err == nil {
			sizes[name] = info.Size
		}
	}
	slices.SortStableFunc(packs, func(a, b string) int { return int(min(max(sizes[a]-sizes[b], -1), 1)) })
	return packs
}

func newHash(size int) hash.Hash {
	if size == sha256.Size {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // git's name of an object
}

// timed is a reader that ends with a context.
type timed struct {
	ctx context.Context //nolint:containedctx // of one call
	r   io.Reader
}

// Read reads as long as there is time.
func (t timed) Read(p []byte) (int, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}
	return t.r.Read(p)
}

// loose hashes one object: what is compressed in its file is what its name is
// the hash of (gitformat-loose(5)).
func (v *verifier) loose(name string) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	f, _, err := beneath.OpenFile(v.dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	z, err := zlib.NewReader(f)
	if err != nil {
		return errForged
	}
	h := newHash(v.hash)
	if _, err := io.Copy(h, timed{v.ctx, z}); err != nil {
		return v.broken(err)
	}
	if hex.EncodeToString(h.Sum(nil)) != strings.Replace(name, "/", "", 1) {
		return errForged
	}
	return nil
}

// broken is the cause where bytes are not what they have to be, unless it is
// that there was no time.
func (v *verifier) broken(err error) error {
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	if errors.Is(err, errLarge) {
		return err
	}
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return err
	}
	return errForged
}

// same compares a pack with the index that it had before, which holds the
// pack's hash. Git sets the time of a pack anew when it would have written an
// object that is in it.
func (v *verifier) same(name string) error {
	i, err := v.index(name)
	if err != nil {
		return err
	}
	f, info, err := beneath.OpenFile(v.dir, name+".pack")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	return v.whole(f, info.Size, i.pack)
}

// whole makes sure that a file has a hash, and says so at its end.
func (v *verifier) whole(f io.ReaderAt, size int64, want []byte) error {
	if size < int64(v.hash) {
		return errForged
	}
	h, end := newHash(v.hash), make([]byte, v.hash)
	if _, err := io.CopyBuffer(h, timed{v.ctx, io.NewSectionReader(f, 0, size-int64(v.hash))}, make([]byte, 1<<20)); err != nil {
		return err
	}
	if _, err := f.ReadAt(end, size-int64(v.hash)); err != nil {
		return err
	}
	if sum := h.Sum(nil); !slices.Equal(sum, want) || !slices.Equal(sum, end) {
		return errForged
	}
	return nil
}
