// Package handoff is what the local engine and its helper say to each other:
// the settings that go down, the reports that come up, and the descriptors
// that travel with both. It is apart from the engine so that the helper's
// program holds no more than it needs.
package handoff

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/linux/mount"
	"github.com/bailey-dev/bailey/internal/role"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// Descriptors that a helper is born with, after the standard three.
const (
	ControlFD = 3 // Unix stream socket to the parent
	WireFD    = 4 // the sandbox's end of the wire
	ExeFD     = role.HelperExeFD
)

// Enrolled is the one byte that the parent sends, after the settings, when the
// helper and gVisor's waiting program are under their limits: from then on
// that program may have its arguments.
const Enrolled = 'e'

// WriteEnrolled says so, with the files by which the helper and what it has
// started are to move themselves into the sandbox's cgroup, if any.
func WriteEnrolled(control *os.File, joins []*os.File) error {
	fds := make([]int, len(joins))
	for i, f := range joins {
		fds[i] = int(f.Fd())
	}
	return send(control, []byte{Enrolled}, unix.UnixRights(fds...))
}

// ReadEnrolled waits for WriteEnrolled.
func ReadEnrolled(control *os.File) ([]*os.File, error) {
	head, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(maxFiles*4))
	n, oobn, err := recv(control, head, oob)
	if err != nil || n != 1 || head[0] != Enrolled {
		return nil, fmt.Errorf("wait to be enrolled: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return received(oob[:oobn]), nil
}

// maxSettings bounds the document that the parent sends. Private copies of a
// repository's hooks travel in it.
const maxSettings = 64 << 20

// Settings is what the parent tells the helper, once, over the control socket.
// Descriptors travel with it: the proxy's socket if there is a proxy, then the
// prepared mounts.
type Settings struct {
	Spec     sandbox.Spec `json:"spec"`
	Proxy    bool         `json:"proxy"`     // a proxy waits for listeners
	Model    int          `json:"model"`     // the sandbox's end of the wire to the model gateway: an index into the descriptors, or -1
	MountFDs []int        `json:"mount_fds"` // one for each of Spec.Mounts: an index into the descriptors, or -1 to open Source here
	CopySelf bool         `json:"copy_self"` // the helper's own program is the first process's too
	DebugDir string       `json:"debug_dir"` // a folder of the host for gVisor's own logs; empty for none
	DebugFD  int          `json:"debug_fd"`  // it as a prepared mount, as in MountFDs
}

// Report is one line from the helper to the parent.
type Report struct {
	Event   string `json:"event"` // launched, started, failed, exited
	Layer   string `json:"layer,omitempty"`
	Message string `json:"message,omitempty"`
	Hint    string `json:"hint,omitempty"`
	Log     string `json:"log,omitempty"` // the end of gVisor's messages
}

// The events of a Report.
const (
	Launched = "launched" // gVisor's program waits for its arguments
	Started  = "started"  // gVisor runs; carries the private folder's descriptor if there is one
	Failed   = "failed"   // nothing runs
	Exited   = "exited"   // gVisor ended
)

// document is how settings travel: what generated files and private copies hold
// follows it as it is. It is most of what there is, hundreds of kilobytes, and
// as a part of a document it would be written, and read, three times.
type document struct {
	*Settings

	Sizes []int `json:"sizes"` // in bytes, in the order of contents
}

// contents are what the files of s hold.
func contents(s *sandbox.Spec) []*[]byte {
	var out []*[]byte
	for i := range s.Files {
		out = append(out, &s.Files[i].Data)
	}
	for i := range s.Shadows {
		for j := range s.Shadows[i].Files {
			out = append(out, &s.Shadows[i].Files[j].Data)
		}
	}
	return out
}

// encode returns the document, and what follows it. Meanwhile the files of s
// are empty.
func encode(s *Settings) ([][]byte, error) {
	held := contents(&s.Spec)
	out := make([][]byte, 1, len(held)+1)
	doc, total := document{Settings: s}, 0
	for _, data := range held {
		out = append(out, *data)
		doc.Sizes = append(doc.Sizes, len(*data))
		*data = nil
	}
	b, err := json.Marshal(doc)
	out[0] = b
	for i, data := range held {
		*data = out[i+1]
	}
	if err != nil {
		return nil, fmt.Errorf("encode helper settings: %w", err)
	}
	for _, piece := range out {
		total += len(piece)
	}
	if total > maxSettings {
		return nil, fmt.Errorf("helper settings: %d bytes, at most %d", total, maxSettings)
	}
	return out, nil
}

// WriteSettings sends s, length first, and the files.
func WriteSettings(control *os.File, s *Settings, files []*os.File) error {
	pieces, err := encode(s)
	if err != nil {
		return err
	}
	if len(files) > maxFiles {
		return fmt.Errorf("helper settings: %d descriptors, at most %d", len(files), maxFiles)
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(pieces[0])))
	if err := send(control, head, unix.UnixRights(fds...)); err != nil {
		return fmt.Errorf("send helper settings: %w", err)
	}
	for _, piece := range pieces {
		if _, err := control.Write(piece); err != nil {
			return fmt.Errorf("send helper settings: %w", err)
		}
	}
	return nil
}

// maxFiles is how many descriptors fit in one message (SCM_MAX_FD, unix(7)).
const maxFiles = 253

// ReadSettings reads and checks what WriteSettings sent.
func ReadSettings(control *os.File) (*Settings, []*os.File, error) {
	head := make([]byte, 4)
	oob := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, oobn, err := recv(control, head, oob)
	if err != nil || n == 0 {
		return nil, nil, fmt.Errorf("read helper settings: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	if _, err := io.ReadFull(control, head[n:]); err != nil {
		return nil, nil, fmt.Errorf("read helper settings: %w", err)
	}
	files := received(oob[:oobn])
	s, err := decodeSettings(control, binary.BigEndian.Uint32(head))
	if err != nil {
		return nil, nil, err
	}
	want := 0
	if s.Proxy {
		want = 1
	}
	for _, i := range append([]int{s.DebugFD, s.Model}, s.MountFDs...) {
		if i >= len(files) {
			return nil, nil, fmt.Errorf("helper settings: descriptor %d of %d", i, len(files))
		}
	}
	if len(files) < want {
		return nil, nil, errors.New("helper settings: no socket of the proxy")
	}
	return s, files, nil
}

func received(oob []byte) []*os.File {
	var files []*os.File
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return files
}

func decodeSettings(r io.Reader, size uint32) (*Settings, error) {
	if size > maxSettings {
		return nil, errors.New("helper settings: too long")
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("read helper settings: %w", err)
	}
	var s Settings
	doc := document{Settings: &s}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("decode helper settings: %w", err)
	}
	if err := readContents(r, &s.Spec, doc.Sizes); err != nil {
		return nil, err
	}
	if err := s.Spec.Validate(); err != nil {
		return nil, err
	}
	if len(s.MountFDs) != len(s.Spec.Mounts) {
		return nil, fmt.Errorf("helper settings: %d mounts, %d descriptors", len(s.Spec.Mounts), len(s.MountFDs))
	}
	return &s, nil
}

// readContents reads what follows the document.
func readContents(r io.Reader, s *sandbox.Spec, sizes []int) error {
	held, total := contents(s), 0
	if len(sizes) != len(held) {
		return fmt.Errorf("helper settings: %d files, %d sizes", len(held), len(sizes))
	}
	for _, n := range sizes {
		if n < 0 || n > maxSettings-total {
			return errors.New("helper settings: too long")
		}
		total += n
	}
	all := make([]byte, total)
	if _, err := io.ReadFull(r, all); err != nil {
		return fmt.Errorf("read helper settings: %w", err)
	}
	for i, n := range sizes {
		*held[i], all = all[:n:n], all[n:]
	}
	return nil
}

// ErrOther is the cause when something else lies at a mount's source than what
// was looked at: somebody renames folders while a sandbox starts.
var ErrOther = errors.New("another file or folder lies there now than when the start began")

// Clone opens the source of a mount, once, and makes sure that it is what the
// mount is of.
func Clone(m bailey.Mount) (*os.File, error) {
	f, err := mount.Clone(m.Source)
	if err != nil || m.Is == (bailey.FileID{}) {
		return f, err
	}
	info, err := beneath.Lstat(f, "")
	if err == nil && m.Is != (bailey.FileID{Dev: info.Dev, Ino: info.Ino}) {
		err = ErrOther
	}
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", m.Source, errors.Join(err, f.Close()))
	}
	return f, nil
}

// Restrict says how a mount of the sandbox is restricted on the host's side.
func Restrict(m bailey.Mount) mount.Attr {
	return mount.Attr{ReadOnly: !m.Writable, NoSuid: true, NoDev: true}
}

// WriteReport sends r as one line, and the descriptors with its beginning.
func WriteReport(control *os.File, r Report, fds ...int) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	b = append(b, '\n')
	if err := send(control, b[:1], rights); err != nil {
		return fmt.Errorf("send report: %w", err)
	}
	if _, err := control.Write(b[1:]); err != nil {
		return fmt.Errorf("send report: %w", err)
	}
	return nil
}

// maxReport bounds a report, and what is kept of the next one.
const maxReport = 256 << 10

// Reports reads what WriteReport wrote: a stream keeps no bounds between
// messages, so a report may come in pieces or together with the next.
type Reports struct {
	control *os.File
	rest    []byte
}

// NewReports makes a Reports on the parent's end of the control socket.
func NewReports(control *os.File) *Reports { return &Reports{control: control} }

// Next returns the next report and the descriptor that came with it, or nil.
// It returns io.EOF when the helper is gone.
func (r *Reports) Next() (Report, *os.File, error) {
	var (
		report Report
		with   *os.File
		chunk  [4 << 10]byte
	)
	for {
		if line, rest, ok := bytes.Cut(r.rest, []byte{'\n'}); ok {
			r.rest = rest
			if err := json.Unmarshal(line, &report); err != nil {
				return report, with, fmt.Errorf("decode report: %w", err)
			}
			return report, with, nil
		}
		if len(r.rest) > maxReport {
			return report, with, errors.New("the helper's report is too long")
		}
		oob := make([]byte, unix.CmsgSpace(4))
		n, oobn, err := recv(r.control, chunk[:], oob)
		if err != nil {
			return report, with, fmt.Errorf("read report: %w", err)
		}
		if files := received(oob[:oobn]); len(files) > 0 {
			with = files[0]
		}
		if n == 0 {
			return report, with, io.EOF
		}
		r.rest = append(r.rest, chunk[:n]...)
	}
}

// send sends one message with descriptors.
func send(f *os.File, msg, rights []byte) (err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	ctlErr := c.Write(func(fd uintptr) bool {
		err = unix.Sendmsg(int(fd), msg, rights, nil, unix.MSG_NOSIGNAL)
		return !errors.Is(err, unix.EAGAIN)
	})
	return errors.Join(ctlErr, err)
}

// recv receives one message with descriptors.
func recv(f *os.File, buf, oob []byte) (n, oobn int, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	ctlErr := c.Read(func(fd uintptr) bool {
		n, oobn, _, _, err = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	return n, oobn, errors.Join(ctlErr, err)
}
