package fdpass_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/linux/fdpass"
)

// TestSendFiles passes files with a packet; what is too much for the receiver
// is an error, and its files are closed.
func TestSendFiles(t *testing.T) {
	t.Parallel()
	ours, theirs, err := fdpass.PacketPair("pair")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = theirs.Close() }()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if err := fdpass.SendFiles(ours, []byte("two"), []*os.File{w, r}); err != nil {
		t.Fatal(err)
	}
	payload, files, err := fdpass.ReceiveFiles(theirs, 16)
	if err != nil || string(payload) != "two" || len(files) != 2 {
		t.Fatalf("%q, %d files, %v", payload, len(files), err)
	}
	for _, f := range files {
		_ = f.Close()
	}

	if err := fdpass.SendFiles(ours, []byte(strings.Repeat("x", 17)), []*os.File{w}); err != nil {
		t.Fatal(err)
	}
	if _, files, err := fdpass.ReceiveFiles(theirs, 16); err == nil || files != nil {
		t.Errorf("a packet that is too long: %v, %v", files, err)
	}
	_ = w.Close()
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("a file of a refused packet is still open: %d, %v", n, err)
	}
	if err := fdpass.SendFiles(ours, nil, nil); err == nil {
		t.Error("a packet of nothing was sent: it would be taken for the end")
	}
	_ = ours.Close()
	if _, _, err := fdpass.ReceiveFiles(theirs, 16); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the end: %v", err)
	}
}
