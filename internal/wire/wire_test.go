package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/wire"
)

func full() wire.Header {
	return wire.Header{Op: wire.OpExec, Exec: wire.Exec{
		Argv: []string{"/bin/sh", "", "-c", "\xff\n"}, Env: []string{"A=", "B=x=y", "C=\xfe"}, Dir: "/w",
		TTY: true, Rows: 40, Cols: 120, Main: true, Umask: 0o22,
		Limits: []wire.Limit{{Resource: 6, Value: 512}, {Resource: 7, Value: ^uint64(0)}},
		Files:  []wire.File{{Path: "/h/a", Mode: 0o600, Data: []byte("x\x00")}, {Path: "/b", Mode: 0o777, Data: []byte{}}},
	}}
}

func TestHeader_ComesBackAsItWent(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]wire.Header{
		"full":     full(),
		"least":    {Op: wire.OpExec, Exec: wire.Exec{Argv: []string{"x"}}},
		"ping":     {Op: wire.OpPing},
		"shutdown": {Op: wire.OpShutdown},
		"hide":     {Op: wire.OpHide, Hide: wire.Hide{Path: "/w", Rules: []byte("-a\x00")}},
		"dial":     {Op: wire.OpDial, Port: 3000},
		"open":     {Op: wire.OpOpen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := wire.WriteHeader(&b, &h); err != nil {
				t.Fatal(err)
			}
			b.WriteString("frames")
			got, err := wire.ReadHeader(&b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(h, got); diff != "" {
				t.Errorf("-sent +read:\n%s", diff)
			}
			if b.String() != "frames" {
				t.Errorf("ReadHeader left %q of what follows", b.String())
			}
		})
	}
}

func TestHeader_IsValidated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*wire.Header)
		says  string
	}{
		"no operation":     {func(h *wire.Header) { h.Op = 0 }, "operation"},
		"unknown":          {func(h *wire.Header) { h.Op = 9 }, "operation"},
		"no command":       {func(h *wire.Header) { h.Exec.Argv = nil }, "empty command"},
		"empty command":    {func(h *wire.Header) { h.Exec.Argv[0] = "" }, "empty command"},
		"relative":         {func(h *wire.Header) { h.Exec.Dir = "w" }, "not absolute"},
		"umask":            {func(h *wire.Header) { h.Exec.Umask = 0o1000 }, "umask"},
		"NUL in argument":  {func(h *wire.Header) { h.Exec.Argv[1] = "a\x00b" }, "NUL"},
		"NUL in value":     {func(h *wire.Header) { h.Exec.Env[0] = "A=\x00" }, "NUL"},
		"NUL in directory": {func(h *wire.Header) { h.Exec.Dir = "/\x00" }, "NUL"},
		"no name":          {func(h *wire.Header) { h.Exec.Env[0] = "=secret" }, "without a name"},
		"no equals":        {func(h *wire.Header) { h.Exec.Env[0] = "secret" }, "without a name"},
		"file, relative":   {func(h *wire.Header) { h.Exec.Files[0].Path = "a" }, "not usable"},
		"file, unclean":    {func(h *wire.Header) { h.Exec.Files[0].Path = "/a/../b" }, "not usable"},
		"file, NUL":        {func(h *wire.Header) { h.Exec.Files[0].Path = "/a\x00" }, "not usable"},
		"file, setuid":     {func(h *wire.Header) { h.Exec.Files[0].Mode = 0o4755 }, "not usable"},
		"too large":        {func(h *wire.Header) { h.Exec.Argv[1] = strings.Repeat("x", wire.MaxHeader) }, "1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := full()
			c.spoil(&h)
			err := wire.WriteHeader(io.Discard, &h)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error = %v, want one with %q", err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Error("the error tells a value")
			}
		})
	}
}

func TestReadHeader_RefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	h := full()
	if err := wire.WriteHeader(&b, &h); err != nil {
		t.Fatal(err)
	}
	good := b.Bytes()
	sized := func(body []byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	change := func(at int, c byte) []byte {
		body := bytes.Clone(good[4:])
		body[at] = c
		return sized(body)
	}
	for name, in := range map[string][]byte{
		"empty":          {},
		"zero length":    {0, 0, 0, 0},
		"over the bound": {0, 0x10, 0, 1},
		"huge":           {0xff, 0xff, 0xff, 0xff},
		"cut":            good[:len(good)-1],
		"one byte more":  sized(append(bytes.Clone(good[4:]), 0)),
		"one byte less":  sized(good[4 : len(good)-1]),
		"version":        change(0, 2),
		"unknown flag":   change(2, 0x80),
		"length of Dir":  change(9, 0x7f),
		"endless length": sized(append(bytes.Clone(good[4:13]), bytes.Repeat([]byte{0xff}, 20)...)),
		"count of Argv":  change(12, 0x7f),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := wire.ReadHeader(bytes.NewReader(in)); err == nil {
				t.Error("no error")
			}
		})
	}
	if _, err := wire.ReadHeader(bytes.NewReader(sized(good[4:]))); err != nil {
		t.Errorf("twin: %v", err)
	}
}

func FuzzReadHeader(f *testing.F) {
	var b bytes.Buffer
	h := full()
	if err := wire.WriteHeader(&b, &h); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 9, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := wire.ReadHeader(bytes.NewReader(in))
		if err != nil {
			return
		}
		if err := h.Validate(); err != nil {
			t.Fatalf("read an invalid header: %v", err)
		}
		var b bytes.Buffer
		if err := wire.WriteHeader(&b, &h); err != nil {
			t.Fatal(err)
		}
		again, err := wire.ReadHeader(&b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestFrames_ComeBackAsTheyWent(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("x"), wire.MaxPayload)
	for side, frames := range map[wire.Side][]wire.Frame{
		wire.FromHost: {
			{Type: wire.Stdin, Payload: big},
			{Type: wire.Stdin, Payload: []byte("a")},
			{Type: wire.StdinEOF, Payload: []byte{}},
			{Type: wire.Resize, Payload: wire.ResizePayload(40, 1200)},
			{Type: wire.Signal, Payload: []byte{15}},
			{Type: wire.CloseOut, Payload: []byte{2}},
		},
		wire.FromSandbox: {
			{Type: wire.Started, Payload: wire.NumberPayload(7)},
			{Type: wire.Stdout, Payload: big},
			{Type: wire.Stderr, Payload: []byte("e")},
			{Type: wire.Credit, Payload: wire.NumberPayload(1 << 16)},
			{Type: wire.Stopped, Payload: []byte{19}},
			{Type: wire.Exited, Payload: wire.ExitPayload(wire.Exit{Code: 255})},
			{Type: wire.Failed, Payload: wire.FailPayload(wire.FailNotFound, "no")},
			{Type: wire.Ready, Payload: []byte{}},
		},
	} {
		var b bytes.Buffer
		w := wire.NewWriter(&b)
		for _, f := range frames {
			if err := w.Send(f.Type, f.Payload); err != nil {
				t.Fatal(err)
			}
		}
		sent := b.Bytes()
		r := wire.NewReader(&b, side)
		for _, want := range frames {
			got, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-sent +read:\n%.300s", diff)
			}
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
		// Twin: the other side may send none of these.
		for _, f := range frames {
			var b bytes.Buffer
			if err := wire.NewWriter(&b).Send(f.Type, f.Payload); err != nil {
				t.Fatal(err)
			}
			if _, err := wire.NewReader(&b, wire.FromHost+wire.FromSandbox-side).Next(); !errors.Is(err, wire.ErrFrame) {
				t.Errorf("type %d from the wrong side: %v", f.Type, err)
			}
		}
		if _, err := wire.NewReader(bytes.NewReader(sent[:len(sent)/2]), side).Next(); errors.Is(err, io.EOF) {
			t.Error("a cut frame reads as the end")
		}
	}
}

func TestPayloads_AreValidated(t *testing.T) {
	t.Parallel()
	exit := wire.Frame{Type: wire.Exited, Payload: wire.ExitPayload(wire.Exit{Signal: syscall.SIGKILL})}
	if e, err := exit.Exit(); err != nil || e.Signal != syscall.SIGKILL {
		t.Errorf("%v, %v", e, err)
	}
	if rows, cols := (wire.Frame{Payload: wire.ResizePayload(1, 65535)}).Resize(); rows != 1 || cols != 65535 {
		t.Error(rows, cols)
	}
	long := wire.Frame{Payload: wire.FailPayload(wire.FailOther, strings.Repeat("x", 10000))}
	if _, message, err := long.Failure(); err != nil || len(message) != 4095 {
		t.Errorf("message of %d bytes, %v", len(message), err)
	}
	for name, err := range map[string]error{
		"signal 0":  second((wire.Frame{Payload: []byte{0}}).SignalNumber()),
		"signal 65": second((wire.Frame{Payload: []byte{65}}).SignalNumber()),
		"output 0":  second((wire.Frame{Payload: []byte{0}}).Output()),
		"output 3":  second((wire.Frame{Payload: []byte{3}}).Output()),
		"exit both": second((wire.Frame{Payload: []byte{1, 1}}).Exit()),
		"exit 65":   second((wire.Frame{Payload: []byte{0, 65}}).Exit()),
	} {
		if !errors.Is(err, wire.ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	_ = w.Send(wire.Stdout, []byte("x"))
	_ = w.Send(wire.Exited, []byte{0, 9})
	f.Add(b.Bytes(), true)
	f.Add([]byte{1, 0, 0, 0, 1, 'x', 5, 0, 0, 0, 1, 3}, false)
	f.Fuzz(func(t *testing.T, in []byte, sandbox bool) {
		side := wire.FromHost
		if sandbox {
			side = wire.FromSandbox
		}
		r := wire.NewReader(bytes.NewReader(in), side)
		for {
			fr, err := r.Next()
			if err != nil {
				return
			}
			if len(fr.Payload) > wire.MaxPayload {
				t.Fatalf("payload of %d bytes", len(fr.Payload))
			}
			decode(fr)
		}
	})
}

// decode calls every decoder that fits: none may panic.
func decode(f wire.Frame) {
	switch f.Type {
	case wire.Resize:
		f.Resize()
	case wire.Started, wire.Credit:
		f.Number()
	case wire.Signal, wire.Stopped:
		_, _ = f.SignalNumber()
	case wire.CloseOut:
		_, _ = f.Output()
	case wire.Exited:
		_, _ = f.Exit()
	case wire.Failed:
		_, _, _ = f.Failure()
	}
}

// ends are a host and a raw sandbox end.
func ends(t *testing.T) (*wire.Host, io.ReadWriteCloser) {
	t.Helper()
	a, b, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	host, err := wire.NewHost(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = host.Close()
		_ = b.Close()
	})
	return host, b
}

// TestHost_AskEndsWithItsContext: neither a sandbox that answers nothing nor
// one whose socket is full holds up who asks.
func TestHost_AskEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]bool{"silent": false, "full": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b, err := wire.Pair()
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if fill {
				if err := a.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				for err == nil {
					_, err = a.Write(make([]byte, 4096))
				}
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
				if err := a.SetWriteDeadline(time.Time{}); err != nil {
					t.Fatal(err)
				}
			}
			host, err := wire.NewHost(a)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- errors.Join(host.Shutdown(ctx), host.Close()) }()
			select {
			case err := <-done:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it waits for the sandbox")
			}
		})
	}
}

func TestHost_OpensStreamsBeforeTheSandboxRuns(t *testing.T) {
	t.Parallel()
	host, inner := ends(t)
	h := full()
	stream, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.WriteHeader(stream, &h); err != nil {
		t.Fatal(err)
	}
	sandbox, err := wire.NewSandbox(inner)
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close()
	got, err := sandbox.Accept()
	if err != nil {
		t.Fatal(err)
	}
	read, err := wire.ReadHeader(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, read); diff != "" {
		t.Error(diff)
	}
}

func TestHost_CarriesManyStreamsAtOnce(t *testing.T) {
	t.Parallel()
	host, inner := ends(t)
	sandbox, err := wire.NewSandbox(inner)
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close()
	go func() {
		for {
			s, err := sandbox.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(s, s)
				_ = s.Close()
			}()
		}
	}()
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	done := make(chan error, 20)
	for range cap(done) {
		go func() { done <- echo(host, data) }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func echo(host *wire.Host, data []byte) error {
	s, err := host.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	go func() { _, _ = s.Write(data) }()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(s, got); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return errors.New("other bytes came back")
	}
	return nil
}

func TestHost_PingGivesUpWithTheContext(t *testing.T) {
	t.Parallel()
	host, _ := ends(t)
	why := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, why)
	defer cancel()
	if err := host.Ping(ctx); !errors.Is(err, why) {
		t.Errorf("error = %v", err)
	}
}

// muxFrame is a frame of yamux.
func muxFrame(version, typ byte, flags uint16, id, length uint32) []byte {
	b := []byte{version, typ}
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, id)
	return binary.BigEndian.AppendUint32(b, length)
}

func TestHost_EndsAWireThatBreaksTheRules(t *testing.T) {
	t.Parallel()
	const syn, ack = 1, 2
	for name, says := range map[string][]byte{
		"a stream of its own":     muxFrame(0, 1, syn, 2, 0),
		"a stream with data":      muxFrame(0, 0, syn, 2, 5),
		"a ping":                  muxFrame(0, 2, syn, 0, 1),
		"an answer to no ping":    muxFrame(0, 2, ack, 0, 1),
		"more than the window":    muxFrame(0, 0, 0, 1, 256<<10+1),
		"a window without end":    muxFrame(0, 1, 0, 1, 1<<31),
		"another version":         muxFrame(1, 0, 0, 1, 0),
		"another type":            muxFrame(0, 4, 0, 1, 0),
		"unknown flags":           muxFrame(0, 1, 1<<8, 1, 0),
		"text":                    []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"later, after good ones":  append(muxFrame(0, 1, ack, 1, 0), muxFrame(0, 2, syn, 0, 1)...),
		"behind somebody's bytes": append(append(muxFrame(0, 0, 0, 1, 3), "abc"...), muxFrame(0, 1, syn, 2, 0)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, inner := ends(t)
			if _, err := host.Open(); err != nil {
				t.Fatal(err)
			}
			for _, c := range says { // one by one: the rules hold at any cut
				if _, err := inner.Write([]byte{c}); err != nil {
					break
				}
			}
			select {
			case <-host.Done():
			case <-time.After(30 * time.Second):
				t.Error("the wire lives on")
			}
		})
	}
	t.Run("twin: good frames", func(t *testing.T) {
		t.Parallel()
		host, inner := ends(t)
		s, err := host.Open()
		if err != nil {
			t.Fatal(err)
		}
		good := append(muxFrame(0, 1, ack, 1, 0), append(muxFrame(0, 0, 0, 1, 3), "abc"...)...)
		if _, err := inner.Write(good); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 3)
		if _, err := io.ReadFull(s, got); err != nil || string(got) != "abc" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func FuzzHost(f *testing.F) {
	f.Add(muxFrame(0, 1, 2, 1, 0))
	f.Add(append(muxFrame(0, 0, 0, 1, 3), "abc"...))
	f.Add(append(muxFrame(0, 0, 0, 1, 0), muxFrame(0, 1, 4, 1, 0)...))
	f.Fuzz(func(t *testing.T, says []byte) {
		a, b, err := wire.Pair()
		if err != nil {
			t.Fatal(err)
		}
		host, err := wire.NewHost(a)
		if err != nil {
			t.Fatal(err)
		}
		s, err := host.Open()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = b.Write(says)
		_ = b.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(s, 1<<20))
		<-host.Done()
		_ = host.Close()
	})
}
