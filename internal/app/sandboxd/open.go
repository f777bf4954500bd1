package sandboxd

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey/internal/wire"
)

// openAddr is where addresses for the host's browser are taken inside: an
// abstract socket, since nothing of the file system is ours.
const openAddr = "@bailey-open"

// openWait is how long the host may take to answer, and a program inside to
// ask.
const openWait = 30 * time.Second

// opening is the stream over which the host takes addresses.
type opening struct {
	mu     sync.Mutex // one question at a time
	frames *wire.Reader
	w      *wire.Writer
}

// takeAddresses passes on to the host what programs inside ask to be opened,
// until the stream is gone.
func takeAddresses(stream io.ReadWriteCloser) {
	o := &opening{frames: wire.NewReader(stream, wire.FromHost), w: wire.NewWriter(stream)}
	l, err := net.Listen("unix", openAddr) //nolint:noctx // it takes no time
	if err != nil {
		_ = o.w.Send(wire.Failed, wire.FailPayload(wire.FailOther, err.Error()))
		return
	}
	defer l.Close()
	if o.w.Send(wire.Ready, nil) != nil {
		return
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go o.pass(conn)
	}
}

// pass hands one address to the host, and its answer back.
func (o *opening) pass(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(openWait)) // a socket takes a deadline
	line, err := bufio.NewReader(io.LimitReader(conn, wire.MaxAddress+1)).ReadString('\n')
	if err != nil || len(line) < 2 {
		_, _ = io.WriteString(conn, "no: an address is one line, and not that long\n")
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.w.Send(wire.Stdout, []byte(strings.TrimSuffix(line, "\n"))) != nil {
		return
	}
	if f, err := o.frames.Next(); err == nil && f.Type == wire.Stdin {
		_ = conn.SetDeadline(time.Now().Add(openWait))
		_, _ = conn.Write(f.Payload)
	}
}

// Open asks the host to open an address in the person's browser, says what came
// of it, and returns an exit code. It is what a program inside starts in the
// place of a browser.
func Open(address string) int {
	fail := func(what string) int {
		_, _ = fmt.Fprintln(os.Stderr, "bailey: "+what)
		return 1
	}
	conn, err := net.DialTimeout("unix", openAddr, openWait) //nolint:noctx // it ends by itself
	if err != nil {
		return fail("there is no browser in here, and the person's own is not lent: bailey run --open-browser lends it. The address: " + address)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(openWait)) // a socket takes a deadline
	if strings.ContainsAny(address, "\r\n") {
		return fail("an address has no line break")
	}
	if _, err := io.WriteString(conn, address+"\n"); err != nil {
		return fail(err.Error())
	}
	answer, err := io.ReadAll(io.LimitReader(conn, wire.MaxPayload))
	if err != nil && len(answer) == 0 {
		return fail(err.Error())
	}
	text := strings.TrimSpace(string(answer))
	if says, ok := strings.CutPrefix(text, "ok: "); ok {
		_, _ = fmt.Fprintln(os.Stderr, "bailey: "+says)
		return 0
	}
	return fail(strings.TrimPrefix(text, "no: "))
}
