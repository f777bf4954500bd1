package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/control"
	"github.com/bailey-dev/bailey/internal/wire"
)

// Bounds of published ports.
const (
	mostPublished = 32  // ports of a run
	mostJoined    = 128 // connections of a port at once; more wait
)

// published is one port of this machine's loopback that leads to one inside.
type published struct {
	host, port uint16
	listeners  []net.Listener
	places     chan struct{}
	silent     atomic.Bool // nothing listened inside when it was last asked for
}

// parsePublished reads PORT or HOSTPORT:PORT.
func parsePublished(list []string) ([]*published, error) {
	bad := func(text, why string) error {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--publish: %q %s", text, why), "use PORT, or HOSTPORT:PORT when the port is to be another one on this machine; only its loopback is bound")
	}
	if len(list) > mostPublished {
		return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("--publish: %d ports", len(list)), fmt.Sprintf("at most %d can be published", mostPublished))
	}
	var out []*published
	taken := map[uint64]bool{}
	for _, text := range list {
		host, port, two := strings.Cut(text, ":")
		if !two {
			port = host
		}
		from, err := strconv.ParseUint(host, 10, 16)
		to, err2 := strconv.ParseUint(port, 10, 16)
		switch {
		case err != nil || err2 != nil || from == 0 || to == 0:
			return nil, bad(text, "is not a port")
		case taken[from]:
			return nil, bad(text, "names a port of this machine twice")
		}
		taken[from] = true
		out = append(out, &published{host: uint16(from), port: uint16(to), places: make(chan struct{}, mostJoined)})
	}
	return out, nil
}

// listen binds the port at both addresses of the loopback, or at neither. A
// machine may have no IPv6.
func (p *published) listen(ctx context.Context) error {
	var config net.ListenConfig
	for _, at := range []struct{ network, host string }{{"tcp4", "127.0.0.1"}, {"tcp6", "::1"}} {
		l, err := config.Listen(ctx, at.network, net.JoinHostPort(at.host, strconv.Itoa(int(p.host))))
		if at.host == "::1" && (errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)) {
			continue
		}
		if err != nil {
			p.close()
			why := err
			if n, ok := errors.AsType[syscall.Errno](err); ok {
				why = n
			}
			return p.unbound(at.host, why)
		}
		p.listeners = append(p.listeners, l)
	}
	return nil
}

// unbound is the error of a port that cannot be bound.
func (p *published) unbound(host string, why error) error {
	mend := "end what has it, or publish another"
	if errors.Is(why, syscall.EACCES) {
		mend = "ports below 1024 are root's, unless the sysctl net.ipv4.ip_unprivileged_port_start says otherwise; publish another"
	}
	return bailey.NewError(bailey.Conflict, fmt.Sprintf("--publish: port %d of %s cannot be bound: %v", p.host, host, why),
		fmt.Sprintf("%s: --publish %d:%d", mend, min(int(p.host)+10000, 65535), p.port))
}

func (p *published) close() {
	for _, l := range p.listeners {
		_ = l.Close() // it was only listened at
	}
}

func (p *published) String() string {
	if p.host == p.port {
		return strconv.Itoa(int(p.port))
	}
	return fmt.Sprintf("%d:%d", p.host, p.port)
}

// publishLines are what the header says of published ports.
func (p *plan) publishLines() (lines []string) {
	for _, o := range p.published {
		lines = append(lines, fmt.Sprintf("published: 127.0.0.1:%d and [::1]:%d of this machine lead to port %d inside", o.host, o.host, o.port))
	}
	return lines
}

// bindPublished takes the ports, before anything runs.
func (u *running) bindPublished(ctx context.Context) error {
	for _, p := range u.plan.published {
		if err := p.listen(ctx); err != nil {
			u.closePublished()
			return err
		}
	}
	return nil
}

func (u *running) closePublished() {
	for _, p := range u.plan.published {
		p.close()
	}
}

// servePublished passes connections on until the context ends, and returns a
// function that waits for the end of all of them.
func (u *running) servePublished(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	for _, p := range u.plan.published {
		for _, l := range p.listeners {
			all.Go(func() { u.acceptPublished(ctx, &all, p, l) })
		}
	}
	stop := context.AfterFunc(ctx, u.closePublished)
	return func() {
		u.closePublished()
		stop()
		all.Wait()
	}
}

func (u *running) acceptPublished(ctx context.Context, all *sync.WaitGroup, p *published, l net.Listener) {
	for {
		select {
		case p.places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			<-p.places
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(acceptPause)
			continue
		}
		all.Go(func() {
			defer func() { <-p.places }()
			u.joinPublished(ctx, p, conn)
		})
	}
}

// acceptPause is waited for after an accept that failed.
const acceptPause = 50 * time.Millisecond

// joinPublished passes one connection on.
func (u *running) joinPublished(ctx context.Context, p *published, conn net.Conn) {
	defer conn.Close()
	half, ok := conn.(wire.Half)
	if !ok {
		return
	}
	err := u.wire.Dial(ctx, p.port, half)
	if !errors.Is(err, wire.ErrNothingListens) {
		if err == nil {
			p.silent.Store(false)
		}
		return
	}
	message := fmt.Sprintf("nothing listens at port %d inside sandbox %s, neither at 127.0.0.1 nor at ::1", p.port, u.plan.name)
	if !p.silent.Swap(true) {
		u.out.say("published %s: a connection came, and %s", p, message)
	}
	refuse(conn, message)
}

// answerWait is how long a client may take to begin, before it is refused
// without an answer.
const answerWait = time.Second

// refuse ends a connection. One that speaks HTTP is told why.
func refuse(conn net.Conn, message string) {
	buf := make([]byte, 4096)
	_ = conn.SetDeadline(time.Now().Add(answerWait)) // a socket takes a deadline
	n, _ := conn.Read(buf)
	method, rest, _ := bytes.Cut(buf[:n], []byte(" "))
	if len(method) > 0 && len(method) < 16 && bytes.Contains(rest, []byte(" HTTP/1.")) {
		body := "bailey: " + message + "\n"
		_, _ = io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body) // whoever is gone needs none
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset, as a closed port gives
	}
}

// publishedInfo is what `bailey ps` says of them.
func (p *plan) publishedInfo() (list []control.Published) {
	for _, o := range p.published {
		list = append(list, control.Published{Host: o.host, Port: o.port, Silent: o.silent.Load()})
	}
	return list
}
