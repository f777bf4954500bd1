package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bailey-dev/bailey/internal/linux/netns"
	"github.com/bailey-dev/bailey/internal/linux/thread"
	"github.com/bailey-dev/bailey/internal/testkit/ca"
)

// The addresses of the world look public; nothing leaves the machine.
var (
	hostAddr = netip.MustParseAddr("11.0.0.1")
	upstream = netip.MustParseAddr("11.0.0.10")
	nameserv = netip.MustParseAddr("11.0.0.53")
)

// Names of the upstream, and its ports. TLS for the first passes through, TLS
// for the second is opened.
const (
	nameSpliced = "spliced.test"
	nameOpened  = "opened.test"

	portHTTP = 80
	portTLS  = 443
	portRaw  = 9000 // sends or takes bytes, as the first one asks
	portBulk = 9443 // the same in TLS
)

// world is the two namespaces and the servers.
type world struct {
	host    *os.File // where proxies run
	far     *os.File // where the servers are
	ca      *ca.CA
	closers []io.Closer
}

func newWorld(ctx context.Context) (*world, error) {
	w := &world{}
	authority, err := ca.New(time.Now())
	if err != nil {
		return nil, err
	}
	w.ca = authority
	if err := errors.Join(w.space(&w.host), w.space(&w.far)); err != nil {
		return nil, errors.Join(fmt.Errorf("make network namespaces: %w", err), w.close())
	}
	if err := errors.Join(w.cable(), w.servers(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("make the world: %w", err), w.close())
	}
	return w, nil
}

func (w *world) close() error {
	var errs []error
	for _, c := range w.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (w *world) space(at **os.File) error {
	err := thread.Run(func() (err error) { *at, err = netns.New(); return err })
	if err == nil {
		w.closers = append(w.closers, *at)
	}
	return err
}

// within runs f on a thread in a namespace.
func within(ns *os.File, f func() error) error {
	return thread.Run(func() error {
		if err := netns.Enter(ns); err != nil {
			return err
		}
		return f()
	})
}

// cable joins the two, with a default route over it.
func (w *world) cable() error {
	const mtu = 1500
	err := within(w.host, func() error {
		return withConn(func(c *netns.Conn) error {
			_, err := c.AddVeth(netns.Veth{Name: "up0", PeerName: "world0", PeerNS: w.far, MTU: mtu})
			return err
		})
	})
	if err != nil {
		return err
	}
	if err := within(w.far, func() error { return up("world0", upstream, nameserv) }); err != nil {
		return err
	}
	return within(w.host, func() error {
		if err := up("up0", hostAddr); err != nil {
			return err
		}
		return withConn(func(c *netns.Conn) error {
			l, err := c.Link("up0")
			if err != nil {
				return err
			}
			return errors.Join(c.WaitUp(l), c.AddDefaultRoute(l, upstream))
		})
	})
}

func withConn(f func(*netns.Conn) error) error {
	c, err := netns.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// up sets loopback and a link up, with its addresses.
func up(name string, addrs ...netip.Addr) error {
	return withConn(func(c *netns.Conn) error {
		l, err := c.Link(name)
		if err != nil {
			return err
		}
		if err := errors.Join(c.Up(netns.Loopback()), c.Up(l)); err != nil {
			return err
		}
		for _, a := range addrs {
			if err := c.AddAddress(l, netip.PrefixFrom(a, 8)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) servers(ctx context.Context) error {
	return errors.Join(
		w.web(ctx, portHTTP, nil),
		w.web(ctx, portTLS, w.ca.ServerConfig("h2", "http/1.1")),
		w.accept(ctx, portRaw, bulk),
		w.accept(ctx, portBulk, func(c net.Conn) { bulk(tls.Server(c, w.ca.ServerConfig())) }),
		w.names(ctx),
	)
}

func (w *world) listen(ctx context.Context, port uint16) (net.Listener, error) {
	var ln net.Listener
	err := within(w.far, func() (err error) {
		ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp4", netip.AddrPortFrom(upstream, port).String())
		return err
	})
	if err == nil {
		w.closers = append(w.closers, ln)
	}
	return ln, err
}

func (w *world) accept(ctx context.Context, port uint16, handle func(net.Conn)) error {
	ln, err := w.listen(ctx, port)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	return nil
}

func (w *world) web(ctx context.Context, port uint16, secure *tls.Config) error {
	ln, err := w.listen(ctx, port)
	if err != nil {
		return err
	}
	srv := &http.Server{
		ReadHeaderTimeout: time.Minute, TLSConfig: secure, Handler: http.HandlerFunc(answer),
		ErrorLog: log.New(io.Discard, "", 0), // clients of the latency test say no word after the handshake
	}
	go func() {
		if secure == nil {
			_ = srv.Serve(ln)
		} else {
			_ = srv.ServeTLS(ln, "", "")
		}
	}()
	return nil
}

// names answers every question for an IPv4 address with the upstream's.
func (w *world) names(ctx context.Context) error {
	var pc net.PacketConn
	err := within(w.far, func() (err error) {
		pc, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp4", netip.AddrPortFrom(nameserv, 53).String())
		return err
	})
	if err != nil {
		return err
	}
	w.closers = append(w.closers, pc)
	go func() {
		var buf [1500]byte
		for {
			n, from, err := pc.ReadFrom(buf[:])
			if err != nil {
				return
			}
			if reply, err := reply(buf[:n]); err == nil {
				_, _ = pc.WriteTo(reply, from)
			}
		}
	}()
	return nil
}

func reply(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
				Body:   &dnsmessage.AResource{A: upstream.As4()},
			})
		}
	}
	return m.Pack()
}

// answer is the upstream's web server: a small page, or an event stream whose
// first event says when it was sent.
func answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != pathStream {
		_, _ = io.WriteString(w, "hello, this is a small answer\n")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	pause(r.Context(), streamPause)
	_, _ = fmt.Fprintf(w, "data: %d\n\n", time.Now().UnixNano())
	_ = http.NewResponseController(w).Flush()
	pause(r.Context(), streamPause)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
