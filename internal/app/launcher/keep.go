package launcher

import (
	"errors"
	"io"
	"os"
)

// keptOutput bounds what is kept of one stream of a sandbox, in bytes.
const keptOutput = 64 << 20

// cutNote stands at the end of a stream of which more came.
const cutNote = "\n[bailey: what follows is left out; 64 MiB are kept]\n"

// keep copies a stream into a file until it ends. Of what is more than limit
// nothing is kept but a note, and the writer is not held up: it is read all the
// same. Nothing in it is looked at.
func keep(to, from *os.File, limit int64) error {
	_, err := io.CopyN(to, from, limit)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		one := make([]byte, 1)
		if n, _ := io.ReadFull(from, one); n == 0 {
			return nil
		}
		_, err = to.WriteString(cutNote)
	}
	_, _ = io.Copy(io.Discard, from) // also when the disk is full: the sandbox is ended by its own limits
	return err
}
