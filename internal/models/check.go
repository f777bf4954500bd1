package models

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/upstream"
)

// Check says, a line each and with the place, what of the file does not hold
// outside of it: keys that are not kept, or not for the gateway. find is asked
// for each secret; nil: none is kept.
func (c *Config) Check(find func(name string) (secret.Definition, error)) []string {
	var out []string
	for _, p := range c.Providers() {
		if p.Secret == "" {
			if base := traitsOf(p.Kind).base; base == p.Base && !p.Loopback() {
				out = append(out, fmt.Sprintf("%s: provider %s: %s wants a key; keep it with bailey secret set NAME --for gateway, and write key: {secret: NAME}", p.From, p.Name, base))
			}
			continue
		}
		set := "bailey secret set " + p.Secret + " --for gateway"
		if find == nil {
			out = append(out, fmt.Sprintf("%s: provider %s: there is no secret %s; keep it: %s", p.keyFrom, p.Name, p.Secret, set))
			continue
		}
		d, err := find(p.Secret)
		switch {
		case err != nil:
			out = append(out, fmt.Sprintf("%s: provider %s: there is no secret %s; keep it: %s", p.keyFrom, p.Name, p.Secret, set))
		case !d.Gateway:
			out = append(out, fmt.Sprintf("%s: provider %s: the secret %s is kept for hosts, and not for the gateway; change it: bailey secret edit %s --for gateway", p.keyFrom, p.Name, p.Secret, p.Secret))
		}
	}
	return out
}

// Unkept is the error of a provider whose key is not kept.
func (p Provider) Unkept() error {
	return bailey.NewError(bailey.NotFound, "there is no secret "+p.Secret+", which is the key of the provider "+p.Name, "keep it: bailey secret set "+p.Secret+" --for gateway")
}

// KeptForHosts is the error of a provider whose key could be lent to sandboxes.
func (p Provider) KeptForHosts() error {
	return bailey.NewError(bailey.Forbidden, "the secret "+p.Secret+", which is the key of the provider "+p.Name+", is kept for hosts, and not for the gateway", "change it: bailey secret edit "+p.Secret+" --for gateway")
}

// Providers lists those that models have, each once.
func (c *Config) Providers() []Provider {
	var out []Provider
	seen := map[string]bool{}
	for i := range c.Models {
		if p := c.Models[i].Provider; !seen[p.Name] {
			seen[p.Name] = true
			out = append(out, p)
		}
	}
	return out
}

// Via is how providers are reached. The zero value is directly, trusting whom
// this machine trusts.
type Via struct {
	Way   *upstream.Way
	Roots *x509.CertPool // nil: the machine's
}

// NewVia trusts those whose certificates (DER) are in extra, too.
func NewVia(p *upstream.Proxy, extra [][]byte) (Via, error) {
	v := Via{Way: upstream.New(p)}
	if len(extra) == 0 {
		return v, nil
	}
	var err error
	v.Roots, err = upstream.Roots(extra)
	return v, err
}

// Reach connects to every provider at once, for at most so long each, and
// returns what stands in the way, by the provider's name; nil: nothing. Nothing
// is sent.
func (c *Config) Reach(ctx context.Context, most time.Duration, via Via) map[string]error {
	return c.each(func(p *Provider) error {
		conn, err := p.dial(ctx, most, via)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
}

// Greet connects as Reach does, and finds out whether each provider speaks TLS
// where its address says so, with a certificate that holds, and none where it
// does not. It asks for nothing, and no key is sent.
func (c *Config) Greet(ctx context.Context, most time.Duration, via Via) map[string]error {
	return c.each(func(p *Provider) error {
		conn, err := p.dial(ctx, most, via)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		if strings.HasPrefix(p.Base, "https:") {
			return p.greetTLS(ctx, conn, via.Roots)
		}
		if p.forwarded(via) {
			return nil // it is the proxy that would answer
		}
		return p.greetPlain(ctx, conn)
	})
}

// each asks f about every provider at once.
func (c *Config) each(f func(*Provider) error) map[string]error {
	out := map[string]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range c.Providers() {
		wg.Go(func() {
			err := f(&p)
			mu.Lock()
			defer mu.Unlock()
			out[p.Name] = err
		})
	}
	wg.Wait()
	return out
}

func (p *Provider) dial(ctx context.Context, most time.Duration, via Via) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	at := net.JoinHostPort(p.HostPort())
	if p.forwarded(via) {
		at = via.Way.Addr()
	}
	return via.Way.Dialer((&net.Dialer{}).DialContext)(ctx, "tcp", at)
}

// forwarded reports whether calls are put to the proxy as such.
func (p *Provider) forwarded(via Via) bool {
	return !strings.HasPrefix(p.Base, "https:") && via.Way.Has(net.JoinHostPort(p.HostPort())) && via.Way.Forward
}

func (p *Provider) greetTLS(ctx context.Context, conn net.Conn, roots *x509.CertPool) error {
	host, _ := p.HostPort()
	err := tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: roots}).HandshakeContext(ctx)
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return errors.New("it does not speak TLS; is base_url to begin with http://?")
	}
	return err
}

// greetPlain takes a server for one of TLS that says so, or answers with an
// alert (RFC 8446, section 6). One that says nothing is not complained about:
// calls will tell.
func (p *Provider) greetPlain(ctx context.Context, conn net.Conn) error {
	const alert = 0x15
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	host, port := p.HostPort()
	_, _ = fmt.Fprintf(conn, "HEAD / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", net.JoinHostPort(host, port))
	const enough = 1000
	text, _ := io.ReadAll(io.LimitReader(conn, enough)) // it may end in any way
	said := strings.ToLower(string(text))
	if bytes.HasPrefix(text, []byte{alert}) || strings.HasPrefix(said, "http/1.") && strings.Contains(said, " 400 ") && strings.Contains(said, "https") {
		return errors.New("it speaks TLS; is base_url to begin with https://?")
	}
	return nil
}
