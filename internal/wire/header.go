package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Op says what a stream is for. The zero value is none and is refused.
type Op uint8

// The operations that a host may ask of a sandbox.
const (
	OpExec     Op = iota + 1 // run a command; frames follow
	OpPing                   // answer with one Ready frame
	OpShutdown               // end every process, answer with one Ready frame, exit
	OpModel                  // listen for model calls at ModelAddr, answer with one Ready or Failed frame
	OpHide                   // hide files of a mount, answer with one Ready or Failed frame
	OpDial                   // connect to Port of the loopback inside, answer with Ready or Failed; frames follow
	OpOpen                   // take addresses for the browser: Ready or Failed, then each is Stdout, answered by Stdin
)

// MaxHeader is the most bytes that an encoded Header has: the arguments and
// the environment of a command together.
const MaxHeader = 1 << 20

// version is the first byte of every header. Host and sandbox are the same
// binary; only `bailey exec` of another build can bring another version.
const version = 1

// headerFixed is the encoded size of a Header's fields of fixed size.
const headerFixed = 1 + 1 + 1 + 2 + 2 + 2

const (
	flagTTY  = 1 << 0
	flagMain = 1 << 1
)

// ErrTooLarge is returned for a header that exceeds MaxHeader.
var ErrTooLarge = errors.New("command and environment exceed 1 MiB")

// errMalformed is returned for bytes that are no Header.
var errMalformed = errors.New("malformed header")

// Header is the first message of a stream.
type Header struct {
	Op   Op
	Exec Exec   // for OpExec, else zero
	Hide Hide   // for OpHide, else zero
	Port uint16 // for OpDial, else zero
}

// Hide asks for files of a mount to be hidden, before the first command.
type Hide struct {
	Path  string // the mount; absolute and clean
	Rules []byte // as internal/hide writes them
}

// Exec asks for a command to be run.
type Exec struct {
	Argv  []string // at least one; looked up in Env's PATH when it has no slash
	Env   []string // NAME=VALUE, the whole environment
	Dir   string   // absolute; empty leaves it to who passes the command on
	TTY   bool     // give it a terminal of Rows and Cols; its stderr is its stdout then
	Rows  uint16
	Cols  uint16
	Main  bool   // the command the sandbox exists for
	Umask uint16 // permission bits to take away from new files
	Files []File // written before the command starts, with the folders they need

	// Limits are lower than those that sandboxd has itself. The one of
	// processes should be: sandboxd needs room for its own threads when a
	// fork bomb has filled it (ThreadReserve).
	Limits []Limit
}

// File is a file that a command finds when it starts, in one of the sandbox's
// memory file systems.
type File struct {
	Path string // absolute and clean
	Mode uint16 // permission bits, or LinkMode
	Data []byte
}

// LinkMode is the mode of a symbolic link, whose Data is where it leads
// (S_IFLNK, inode(7)).
const LinkMode = 0o120777

// ThreadReserve is by how much sandboxd's own limit of processes should exceed
// that of commands. The runtime of Go dies when it cannot make a thread.
const ThreadReserve = 64

// Limit is one resource limit, soft and hard (setrlimit(2)). One that is
// higher than sandboxd's own is not applied.
type Limit struct {
	Resource uint8 // RLIMIT_* as Linux numbers them
	Value    uint64
}

// Validate says what is wrong with a header before it is sent, or after it
// was read.
func (h *Header) Validate() error {
	switch h.Op {
	case OpExec:
		return h.Exec.validate()
	case OpHide:
		if f := (&File{Path: h.Hide.Path}); !f.usable() {
			return fmt.Errorf("mount %q is not usable", h.Hide.Path)
		}
		return nil
	case OpDial:
		if h.Port == 0 {
			return errors.New("no port")
		}
		return nil
	case OpPing, OpShutdown, OpModel, OpOpen:
		return nil
	}
	return fmt.Errorf("unknown operation %d", h.Op)
}

func (x *Exec) validate() error {
	if len(x.Argv) == 0 || x.Argv[0] == "" {
		return errors.New("empty command")
	}
	if x.Dir != "" && x.Dir[0] != '/' {
		return fmt.Errorf("working directory %q is not absolute", x.Dir)
	}
	if x.Umask > 0o777 {
		return fmt.Errorf("umask %#o is out of range", x.Umask)
	}
	for _, f := range x.Files {
		if !f.usable() {
			return fmt.Errorf("file %q is not usable", f.Path)
		}
	}
	nul := func(s string) bool { return strings.IndexByte(s, 0) >= 0 }
	if slices.ContainsFunc(x.Argv, nul) || slices.ContainsFunc(x.Env, nul) || nul(x.Dir) {
		return errors.New("NUL byte in command, environment or directory")
	}
	nameless := func(s string) bool { return strings.IndexByte(s, '=') <= 0 }
	if slices.ContainsFunc(x.Env, nameless) {
		return errors.New("environment entry without a name") // no value in the message
	}
	return nil
}

func (f *File) usable() bool {
	return path.IsAbs(f.Path) && path.Clean(f.Path) == f.Path && strings.IndexByte(f.Path, 0) < 0 && (f.Mode <= 0o777 || f.Mode == LinkMode)
}

// WriteHeader sends h as one write: four bytes of length, then the header.
// It returns ErrTooLarge when the arguments and environment do not fit.
func WriteHeader(w io.Writer, h *Header) error {
	if err := h.Validate(); err != nil {
		return err
	}
	body := appendHeader(make([]byte, 4, 4096), h)
	size := len(body) - 4
	if size > MaxHeader {
		return ErrTooLarge
	}
	binary.BigEndian.PutUint32(body, uint32(size)) //nolint:gosec // bounded by MaxHeader
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("write header: %w", err)
	}
	return nil
}

// ReadHeader reads what WriteHeader wrote, and no byte more. Its errors name
// no value of the environment.
func ReadHeader(r io.Reader) (Header, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return Header{}, fmt.Errorf("read header: %w", err)
	}
	size := binary.BigEndian.Uint32(prefix[:])
	if size < headerFixed || size > MaxHeader {
		return Header{}, fmt.Errorf("header of %d bytes: %w", size, errMalformed)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return Header{}, fmt.Errorf("read header: %w", err)
	}
	h, err := parseHeader(body)
	if err != nil {
		return Header{}, err
	}
	if err := h.Validate(); err != nil {
		return Header{}, err
	}
	return h, nil
}

// appendHeader encodes h. The form is binary and not JSON because arguments
// and values are bytes, and JSON would replace those that are no UTF-8.
func appendHeader(b []byte, h *Header) []byte {
	flags := byte(0)
	if h.Exec.TTY {
		flags |= flagTTY
	}
	if h.Exec.Main {
		flags |= flagMain
	}
	b = append(b, version, byte(h.Op), flags)
	b = binary.BigEndian.AppendUint16(b, h.Exec.Rows)
	b = binary.BigEndian.AppendUint16(b, h.Exec.Cols)
	b = binary.BigEndian.AppendUint16(b, h.Exec.Umask)
	b = appendString(b, h.Exec.Dir)
	b = appendStrings(b, h.Exec.Argv)
	b = appendStrings(b, h.Exec.Env)
	b = binary.AppendUvarint(b, uint64(len(h.Exec.Limits)))
	for _, l := range h.Exec.Limits {
		b = append(b, l.Resource)
		b = binary.BigEndian.AppendUint64(b, l.Value)
	}
	b = binary.AppendUvarint(b, uint64(len(h.Exec.Files)))
	for _, f := range h.Exec.Files {
		b = appendString(b, f.Path)
		b = binary.BigEndian.AppendUint16(b, f.Mode)
		b = appendString(b, string(f.Data))
	}
	if h.Op == OpDial {
		b = binary.BigEndian.AppendUint16(b, h.Port)
	}
	if h.Op == OpHide {
		b = appendString(b, h.Hide.Path)
		b = appendString(b, string(h.Hide.Rules))
	}
	return b
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func parseHeader(b []byte) (Header, error) {
	d := decoder{rest: b}
	if v := d.byte(); v != version {
		return Header{}, fmt.Errorf("header version %d, this build speaks %d: use the same build of bailey on both sides", v, version)
	}
	var h Header
	h.Op = Op(d.byte())
	flags := d.byte()
	h.Exec.TTY, h.Exec.Main = flags&flagTTY != 0, flags&flagMain != 0
	h.Exec.Rows, h.Exec.Cols, h.Exec.Umask = d.uint16(), d.uint16(), d.uint16()
	h.Exec.Dir = d.string()
	h.Exec.Argv = d.strings()
	h.Exec.Env = d.strings()
	h.Exec.Limits = d.limits()
	h.Exec.Files = d.files()
	if h.Op == OpDial {
		h.Port = d.uint16()
	}
	if h.Op == OpHide {
		h.Hide = Hide{Path: d.string(), Rules: []byte(d.string())}
	}
	if d.failed || len(d.rest) != 0 || flags&^(flagTTY|flagMain) != 0 {
		return Header{}, errMalformed
	}
	return h, nil
}

// decoder takes values from the front of rest. After the first one that is
// not there it has failed and returns zero values.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) take(n uint64) []byte {
	if d.failed || n > uint64(len(d.rest)) {
		d.failed = true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint16() uint16 {
	if b := d.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if d.failed || n <= 0 {
		d.failed = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) string() string { return string(d.take(d.uvarint())) }

// count reads how many elements follow, each of at least size bytes, so that
// no more memory is taken than the header has bytes for.
func (d *decoder) count(size uint64) int {
	n := d.uvarint()
	if n > uint64(len(d.rest))/size {
		d.failed = true
		return 0
	}
	return int(n) //nolint:gosec // at most MaxHeader
}

func (d *decoder) strings() []string {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.string())
	}
	return list
}

func (d *decoder) limits() []Limit {
	n := d.count(1 + 8)
	if n == 0 {
		return nil
	}
	list := make([]Limit, 0, n)
	for range n {
		list = append(list, Limit{Resource: d.byte(), Value: d.uint64()})
	}
	return list
}

func (d *decoder) files() []File {
	n := d.count(4)
	if n == 0 {
		return nil
	}
	list := make([]File, n)
	for i := range list {
		list[i] = File{Path: d.string(), Mode: d.uint16(), Data: []byte(d.string())}
	}
	return list
}
