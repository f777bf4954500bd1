package gitdata

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strings"

	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// Limits of the packs that are verified. Whatever is in them is made in memory.
const (
	maxVerified      = 2_000_000 // objects
	maxIndexFile     = 256 << 20
	maxVerifiedBytes = 128 << 20 // of an object that others are made of, and of all on the way to one
)

// packIndex is the index of a pack (gitformat-pack(5)).
type packIndex struct {
	hash   int
	names  []byte  // sorted, one after another
	at     []int64 // offset of each
	order  []int32 // their numbers by offset
	fanOut [256]int
	pack   []byte // hash of the pack
}

func (i *packIndex) name(n int) []byte { return i.names[n*i.hash : (n+1)*i.hash] }

// find returns the number of a name, as git finds it; -1 if it is not there.
func (i *packIndex) find(name []byte) int {
	low, high := 0, i.fanOut[name[0]]
	if name[0] > 0 {
		low = i.fanOut[name[0]-1]
	}
	n := low + sort.Search(high-low, func(k int) bool { return bytes.Compare(i.name(low+k), name) >= 0 })
	if n < high && bytes.Equal(i.name(n), name) {
		return n
	}
	return -1
}

// index reads the index of a pack, and is strict about it.
func (v *verifier) index(name string) (*packIndex, error) {
	if err := v.ctx.Err(); err != nil {
		return nil, err
	}
	data, _, err := beneath.ReadFile(v.dir, name+".idx", maxIndexFile)
	if err != nil {
		return nil, err
	}
	i := &packIndex{hash: v.hash}
	old := !bytes.HasPrefix(data, []byte("\xfftOc\x00\x00\x00\x02"))
	if !old {
		data = data[8:]
	}
	const table = 256 * 4
	if len(data) < table+2*v.hash {
		return nil, errForged
	}
	for n := range i.fanOut {
		i.fanOut[n] = int(binary.BigEndian.Uint32(data[4*n:]))
		if n > 0 && i.fanOut[n] < i.fanOut[n-1] {
			return nil, errForged
		}
	}
	if i.fanOut[255] > maxVerified {
		return nil, errLarge
	}
	i.pack = data[len(data)-2*v.hash : len(data)-v.hash]
	body := data[table : len(data)-2*v.hash]
	if old {
		err = i.first(body)
	} else {
		err = i.second(body)
	}
	if err != nil {
		return nil, err
	}
	return i, i.sorted()
}

// first reads the table of version 1.
func (i *packIndex) first(body []byte) error {
	count, size := i.fanOut[255], 4+i.hash
	if len(body) != count*size {
		return errForged
	}
	for n := range count {
		line := body[n*size : (n+1)*size]
		i.at = append(i.at, int64(binary.BigEndian.Uint32(line)))
		i.names = append(i.names, line[4:]...)
	}
	return nil
}

// second reads the tables of version 2.
func (i *packIndex) second(body []byte) error {
	count := i.fanOut[255]
	if len(body) < count*(i.hash+8) {
		return errForged
	}
	i.names, body = body[:count*i.hash], body[count*(i.hash+4):] // checksums of what is stored: git's own
	small, large := body[:4*count], body[4*count:]
	i.at = make([]int64, count)
	for n := range count {
		at := binary.BigEndian.Uint32(small[4*n:])
		i.at[n] = int64(at)
		if at&(1<<31) == 0 {
			continue
		}
		k := int(at &^ (1 << 31))
		if k >= len(large)/8 {
			return errForged
		}
		i.at[n] = int64(binary.BigEndian.Uint64(large[8*k:])) //nolint:gosec // one that is negative is refused (sorted)
	}
	return nil
}

// sorted makes sure that each name is where git looks for it, and orders the
// objects as they lie in the pack.
func (i *packIndex) sorted() error {
	i.order = make([]int32, len(i.at))
	for n := range i.at {
		i.order[n] = int32(n)
		name := i.name(n)
		if n > 0 && bytes.Compare(i.name(n-1), name) >= 0 {
			return errForged
		}
		if first := int(name[0]); n >= i.fanOut[first] || first > 0 && n < i.fanOut[first-1] || i.at[n] < packHeader {
			return errForged
		}
	}
	slices.SortFunc(i.order, func(a, b int32) int { return cmp.Compare(i.at[a], i.at[b]) })
	return nil
}

// order makes sure of a .rev file: the numbers of the objects by offset.
func (v *verifier) order(name string) error {
	i, err := v.index(strings.TrimSuffix(name, ".rev"))
	if err != nil {
		return err
	}
	data, _, err := beneath.ReadFile(v.dir, name, maxIndexFile)
	if err != nil {
		return err
	}
	const head = 12
	if len(data) != head+4*len(i.order)+2*v.hash || !bytes.HasPrefix(data, []byte("RIDX\x00\x00\x00\x01")) {
		return errForged
	}
	for k, n := range i.order {
		if binary.BigEndian.Uint32(data[head+4*k:]) != uint32(n) { //nolint:gosec // at most maxVerified
			return errForged
		}
	}
	return nil
}
