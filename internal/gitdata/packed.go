package gitdata

import "bytes"

// PackedRef is a reference in a file packed-refs, and where its lines lie.
type PackedRef struct {
	ID         string // "" if it is not there
	Start, End int    // of its line and of the one behind it that says what a tag is of
}

// FindPackedRef looks for a full name in the text of packed-refs (git's
// refs/packed-backend.c): lines of an object id, a blank and a name, each
// perhaps followed by "^" and an id.
func FindPackedRef(data []byte, name string) PackedRef {
	tail := []byte(" " + name)
	for pos := 0; pos < len(data); {
		end := lineEnd(data, pos)
		line := bytes.TrimSuffix(data[pos:end], []byte("\n"))
		if id, ok := bytes.CutSuffix(line, tail); ok && len(id) > 0 && !bytes.ContainsAny(id, " #^") {
			for end < len(data) && data[end] == '^' {
				end = lineEnd(data, end)
			}
			return PackedRef{ID: string(id), Start: pos, End: end}
		}
		pos = end
	}
	return PackedRef{}
}

func lineEnd(data []byte, pos int) int {
	if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(data)
}

// WithoutPackedRef returns the text without a reference.
func WithoutPackedRef(data []byte, name string) []byte {
	p := FindPackedRef(data, name)
	if p.ID == "" {
		return data
	}
	return append(bytes.Clone(data[:p.Start]), data[p.End:]...)
}
