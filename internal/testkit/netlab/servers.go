package netlab

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
	"slices"
	"strings"
	"time"
)

// The answers that must never be read inside a sandbox.
const (
	MetadataCanary = "canary-metadata-credentials"
	LoopbackCanary = "canary-host-loopback"
	PrivateCanary  = "canary-private-network"
)

// Handle serves a host name (without port, in lower case) on the lab's HTTP
// and HTTPS servers. Hosts without a handler are answered 200 with
// "hello from HOST at ADDRESS\n".
func (l *Lab) Handle(host string, h http.Handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hosts[host] = h
}

// Requests returns every HTTP request that reached a server of the lab.
func (l *Lab) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}

func (l *Lab) startServers() error {
	for _, a := range []netip.Addr{Allowed, Evil, Allowed6, Evil6} {
		if err := l.serve(netip.AddrPortFrom(a, 80), false, l.route(a)); err != nil {
			return err
		}
		if err := l.serve(netip.AddrPortFrom(a, 443), true, l.route(a)); err != nil {
			return err
		}
		if err := l.echo(netip.AddrPortFrom(a, EchoPort)); err != nil {
			return err
		}
	}
	for to, canary := range map[netip.AddrPort]string{
		netip.AddrPortFrom(Metadata, 80):          MetadataCanary,
		netip.AddrPortFrom(Private, CanaryPort):   PrivateCanary,
		netip.AddrPortFrom(Loopback4, CanaryPort): LoopbackCanary,
		netip.AddrPortFrom(Loopback6, CanaryPort): LoopbackCanary,
		netip.AddrPortFrom(Own, CanaryPort):       LoopbackCanary,
		netip.AddrPortFrom(Own6, CanaryPort):      LoopbackCanary,
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, canary) })
		if err := l.serve(to, false, h); err != nil {
			return err
		}
	}
	return nil
}

// route picks the handler by the Host header, as a shared front end does.
func (l *Lab) route(at netip.Addr) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := strings.ToLower(r.Host)
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		l.mu.Lock()
		h := l.hosts[host]
		l.mu.Unlock()
		if h == nil {
			_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 1<<30))
			_, _ = fmt.Fprintf(w, "hello from %s at %s\n", host, at)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (l *Lab) serve(at netip.AddrPort, secure bool, h http.Handler) error {
	ln, err := l.listen(at.String())
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler:           l.recording(at, h),
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // attacks make noise
	}
	if secure {
		srv.TLSConfig = l.ca.ServerConfig("h2", "http/1.1")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if secure {
			_ = srv.ServeTLS(ln, "", "")
			return
		}
		_ = srv.Serve(ln)
	}()
	l.onClose(func() {
		_ = srv.Close()
		<-done
	})
	return nil
}

func (l *Lab) recording(at netip.AddrPort, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := Request{
			Time: time.Now(), To: at, Proto: r.Proto, Method: r.Method,
			Host: r.Host, Path: r.URL.RequestURI(), Header: r.Header.Clone(),
		}
		if r.TLS != nil {
			rec.TLS = r.TLS.ServerName
		}
		l.mu.Lock()
		l.requests = append(l.requests, rec)
		l.mu.Unlock()
		h.ServeHTTP(w, r)
	})
}

// echo sends back what it gets, byte for byte.
func (l *Lab) echo(at netip.AddrPort) error {
	ln, err := l.listen(at.String())
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
				defer func() { _ = c.Close() }()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return nil
}

// Dial connects from the host side, as a program of the host would. It is
// what a positive twin uses to show that a target does answer.
func (l *Lab) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial %s in lab: %w", address, err)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		// A name would make the dial race on goroutines, which run on threads
		// outside the lab.
		return nil, fmt.Errorf("dial %s in lab: %w", address, errors.New("only addresses can be dialled"))
	}
	var c net.Conn
	err = l.do(func() error {
		var err error
		c, err = (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dial %s in lab: %w", address, err)
	}
	return c, nil
}

// Client is an HTTP client that dials an address of the lab whatever the URL
// says, and trusts the lab's certificates.
func (l *Lab) Client(to netip.AddrPort) *http.Client {
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return l.Dial(ctx, network, to.String())
			},
			TLSClientConfig:   &tls.Config{RootCAs: l.ca.Pool(), MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true,
		},
	}
}
