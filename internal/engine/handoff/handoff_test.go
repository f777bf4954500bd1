package handoff_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/engine/handoff"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/testkit/tier"
)

// ends are the two ends of a control socket.
func ends(t *testing.T) (parent, helper *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	parent, helper = os.NewFile(uintptr(fds[0]), "parent"), os.NewFile(uintptr(fds[1]), "helper")
	t.Cleanup(func() { _, _ = parent.Close(), helper.Close() })
	return parent, helper
}

func TestReports_ComeWholeHoweverTheyTravel(t *testing.T) {
	t.Parallel()
	parent, helper := ends(t)
	want := []handoff.Report{
		{Event: handoff.Started},
		{Event: handoff.Failed, Layer: "airlock", Message: "a\nb", Hint: "mend it"},
		{Event: handoff.Exited, Log: strings.Repeat("\x01", 16<<10)}, // six times as long in JSON
	}
	sent := make(chan error, 1)
	go func() {
		for _, r := range want { // the first two may well be read at once, the last cannot
			if err := handoff.WriteReport(helper, r); err != nil {
				sent <- err
				return
			}
		}
		sent <- helper.Close()
	}()
	reports := handoff.NewReports(parent)
	for _, w := range want {
		got, with, err := reports.Next()
		if err != nil || with != nil {
			t.Fatalf("%v, descriptor %v", err, with)
		}
		if diff := cmp.Diff(w, got); diff != "" {
			t.Errorf("-sent +read:\n%.300s", diff)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if _, _, err := reports.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v", err)
	}
}

func TestReports_PieceByPiece(t *testing.T) {
	t.Parallel()
	parent, helper := ends(t)
	go func() {
		for _, c := range []byte(`{"event":"failed","layer":"proc"}` + "\n" + `{"event":`) {
			_, _ = helper.Write([]byte{c})
		}
		_ = helper.Close()
	}()
	reports := handoff.NewReports(parent)
	if r, _, err := reports.Next(); err != nil || r.Layer != "proc" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, _, err := reports.Next(); err == nil {
		t.Errorf("half a report reads as %+v", r)
	}
}

func TestReports_BringADescriptor(t *testing.T) {
	t.Parallel()
	parent, helper := ends(t)
	file, err := os.Open("handoff_test.go")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := handoff.WriteReport(helper, handoff.Report{Event: handoff.Started}, int(file.Fd())); err != nil {
		t.Fatal(err)
	}
	r, with, err := handoff.NewReports(parent).Next()
	if err != nil || r.Event != handoff.Started || with == nil {
		t.Fatalf("%+v, %v, %v", r, with, err)
	}
	defer with.Close()
	same, err := os.ReadFile("handoff_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(with); err != nil || !bytes.Equal(got, same) {
		t.Errorf("another file came: %d bytes, %v", len(got), err)
	}
}

func TestReports_AreBounded(t *testing.T) {
	t.Parallel()
	parent, helper := ends(t)
	go func() {
		_, _ = helper.Write(bytes.Repeat([]byte("x"), 8<<20))
		_ = helper.Close()
	}()
	if _, _, err := handoff.NewReports(parent).Next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("eight megabytes without a line's end: %v", err)
	}
}

// What lies at a mount's source must be what it is a mount of.
func TestClone_TakesNoOtherFolder(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	base := t.TempDir()
	for _, name := range []string{"mine", "secret"} {
		if err := os.Mkdir(base+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(base+"/mine", &st); err != nil {
		t.Fatal(err)
	}
	m := bailey.Mount{Source: base + "/mine", Target: "/w", Is: bailey.FileID{Dev: st.Dev, Ino: st.Ino}}
	f, err := handoff.Clone(m)
	if err != nil {
		t.Fatalf("twin: %v", err)
	}
	_ = f.Close()
	if err := errors.Join(os.Rename(base+"/mine", base+"/away"), os.Rename(base+"/secret", base+"/mine")); err != nil {
		t.Fatal(err)
	}
	if _, err := handoff.Clone(m); !errors.Is(err, handoff.ErrOther) {
		t.Errorf("another folder in its place: %v", err)
	}
	m.Is = bailey.FileID{}
	if f, err := handoff.Clone(m); err != nil {
		t.Errorf("twin: %v", err)
	} else {
		_ = f.Close()
	}
}

// TestSettings_ArriveAsTheyWere: with what the files hold, which is no part of
// the document, and with the descriptors.
func TestSettings_ArriveAsTheyWere(t *testing.T) {
	t.Parallel()
	parent, helper := ends(t)
	settings := func() *handoff.Settings {
		return &handoff.Settings{Model: -1, DebugFD: -1, MountFDs: []int{-1}, Spec: sandbox.Spec{
			ID: "sbx_0123456789abcdef", UID: 1000, GID: 1000,
			Mounts: []bailey.Mount{{Source: "/w", Target: "/w", Writable: true}},
			Files: []bailey.File{
				{Path: "/etc/a", Mode: 0o644, Data: bytes.Repeat([]byte("\x00\xff\n"), 100_000)}, {Path: "/etc/none", Data: []byte{}}, {Path: "/etc/b", Data: []byte("b\n")},
			},
			Shadows: []bailey.Shadow{
				{Path: "/w/c", Files: []bailey.File{{Data: []byte("c")}}}, {Path: "/w/d", Dir: true}, {Path: "/w/e", Dir: true, Files: []bailey.File{{Path: "x", Data: []byte("e")}}},
			},
		}}
	}
	sent, ended := settings(), make(chan error, 1)
	go func() { ended <- handoff.WriteSettings(parent, sent, []*os.File{parent}) }()
	got, files, err := handoff.ReadSettings(helper)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	_ = files[0].Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]*handoff.Settings{"read": got, "sent, afterwards": sent} {
		if diff := cmp.Diff(settings(), s); diff != "" {
			t.Errorf("-sent +%s:\n%.500s", what, diff)
		}
	}
}

// TestSettings_AreBounded: in the document and in what follows it.
func TestSettings_AreBounded(t *testing.T) {
	t.Parallel()
	parent, helper := ends(t)
	s := &handoff.Settings{Spec: sandbox.Spec{Files: []bailey.File{{Path: "/etc/a", Data: make([]byte, 64<<20)}}}}
	if err := handoff.WriteSettings(parent, s, nil); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("64 MiB and a document: %v", err)
	}
	for _, sizes := range []string{"[99999999]", "[-1]", "[]", "[1,1]"} {
		doc := `{"spec":{"files":[{"path":"/etc/a"}]},"sizes":` + sizes + `}`
		head := binary.BigEndian.AppendUint32(nil, uint32(len(doc)))
		if _, err := parent.Write(append(head, doc...)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := handoff.ReadSettings(helper); err == nil || !strings.Contains(err.Error(), "helper settings") {
			t.Errorf("sizes %s: %v", sizes, err)
		}
	}
}
