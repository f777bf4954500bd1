package redteam

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/config"
)

func networkAttacks() []attack {
	tcp := func(id string, at func(*Target) netip.AddrPort) func(context.Context, *Target) took {
		return func(ctx context.Context, t *Target) took { return askAt(ctx, "tcp", at(t), id) }
	}
	udp := func(id string, at func(*Target) netip.AddrPort) func(context.Context, *Target) took {
		return func(ctx context.Context, t *Target) took { return askAt(ctx, "udp", at(t), id) }
	}
	proxied := func(id, host string) attack {
		return attack{"EGR-05", id, "reach the machine's loopback through the proxy as " + host, noProxy, throughProxy("EGR-05/"+id, host), false}
	}
	return []attack{
		{"EGR-10", "tcp4", "reach a service on the machine's loopback", "", tcp("EGR-10/tcp4", func(t *Target) netip.AddrPort { return t.TCP4 }), false},
		{"EGR-10", "tcp6", "reach one on its IPv6 loopback", "", tcp("EGR-10/tcp6", func(t *Target) netip.AddrPort { return t.TCP6 }), false},
		{"EGR-10", "udp4", "reach a UDP service on its loopback", "", udp("EGR-10/udp4", func(t *Target) netip.AddrPort { return t.UDP4 }), false},
		{"EGR-10", "udp6", "reach a UDP service on its IPv6 loopback", "", udp("EGR-10/udp6", func(t *Target) netip.AddrPort { return t.UDP6 }), false},
		{"EGR-10", "service-name", "reach it as host.bailey.internal", "the name is the sandbox's", serviceName, false},
		{"EGR-02", "udp", "send UDP to another address of the machine", "", udp("EGR-02/udp", func(t *Target) netip.AddrPort { return t.OwnUDP }), false},
		{"EGR-05", "own-address", "reach a service on another address of the machine", "", tcp("EGR-05/own-address", func(t *Target) netip.AddrPort { return t.Own }), false},
		{"EGR-05", "mapped", "reach its loopback by an IPv6 address that embeds it", "", mapped, false},
		{"EGR-05", "metadata", "read a cloud's metadata", "", metadata, false},
		proxied("proxy-loopback", "127.0.0.1"),
		proxied("proxy-decimal", "2130706433"),
		proxied("proxy-hex", "0x7f.1"),
		proxied("proxy-octal", "0177.0.0.1"),
		proxied("proxy-mapped", "[::ffff:127.0.0.1]"),
		proxied("proxy-localhost", "localhost"),
		proxied("proxy-zero", "0.0.0.0"),
		{"EGR-06", "name", "look up a host that no rule names", "", lookUp, false},
		{"EGR-06", "fetch", "fetch from it", "", fetchUnlisted, false},
		{"EGR-09", "tunnel", "send data out in names that are looked up", "", tunnel, false},
		{"EGR-13", "widen", "write a policy file that lets everything through", "it is the sandbox's policy", widen, false},
	}
}

const noProxy = "the proxy is the sandbox's"

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 2 * time.Second}
	c, err := d.DialContext(ctx, network, address)
	if err == nil {
		err = c.SetDeadline(time.Now().Add(2 * time.Second))
	}
	return c, err
}

// request is what a service of the bait is asked: it knows by it which attack
// came through.
func request(host, id string) string {
	return fmt.Sprintf("GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", id, host)
}

func askAt(ctx context.Context, network string, to netip.AddrPort, id string) took {
	if !to.IsValid() {
		return moot("this machine has no such address")
	}
	return ask(ctx, network, to.String(), id)
}

// ask asks a service of the bait for what it keeps.
func ask(ctx context.Context, network, address, id string) took {
	c, err := dial(ctx, network, address)
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request(address, id)); err != nil {
		return failed(err)
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if n == 0 {
		return failed(cmpError(err))
	}
	return took{Data: b[:n], Said: "it answered"}
}

func cmpError(err error) error {
	if err == nil {
		return errors.New("no answer")
	}
	return err
}

func serviceName(ctx context.Context, t *Target) took {
	return ask(ctx, "tcp", net.JoinHostPort("host.bailey.internal", strconv.Itoa(int(t.TCP4.Port()))), "EGR-10/service-name")
}

func mapped(ctx context.Context, t *Target) took {
	var got took
	for _, host := range []string{"::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1"} {
		got = ask(ctx, "tcp6", net.JoinHostPort(host, strconv.Itoa(int(t.TCP4.Port()))), "EGR-05/mapped")
		if len(got.Data) > 0 {
			return got
		}
	}
	return got
}

func metadata(ctx context.Context, _ *Target) took {
	for _, host := range []string{"169.254.169.254", "metadata.google.internal", "100.100.100.200"} {
		if code, err := get(ctx, "http://"+host+"/"); err == nil && code < http.StatusBadRequest {
			return took{Reached: true, Said: host + " answered"}
		}
	}
	return took{Said: "none answered"}
}

// get returns the status of an answer, which a proxy's refusal has too.
func get(ctx context.Context, address string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	client := http.Client{
		Timeout:       3 * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true}, // by no proxy: all connections are the gate's anyway
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_ = res.Body.Close()
	return res.StatusCode, nil
}

// throughProxy asks the sandbox's own proxy, in both ways, for a service of
// the host.
func throughProxy(id, host string) func(context.Context, *Target) took {
	return func(ctx context.Context, t *Target) took {
		u, err := url.Parse(config.Environment().Get("http_proxy"))
		if err != nil || u.Host == "" {
			return moot("there is no proxy to ask")
		}
		to := host + ":" + strconv.Itoa(int(t.TCP4.Port()))
		var all took
		for _, head := range []string{
			"CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n" + request(to, id),
			fmt.Sprintf("GET http://%s/%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", to, id, to),
		} {
			c, err := dial(ctx, "tcp", u.Host)
			if err != nil {
				return failed(err)
			}
			_, _ = io.WriteString(c, head)
			b, _ := io.ReadAll(io.LimitReader(bufio.NewReader(c), 8192))
			_ = c.Close()
			line, _, _ := bytes.Cut(b, []byte("\r\n"))
			all.Data, all.Said = append(all.Data, b...), string(line)
		}
		return all
	}
}

func lookUp(ctx context.Context, t *Target) took {
	if t.Unnamed == "" {
		return moot("the policy answers every name")
	}
	r := net.Resolver{PreferGo: true}
	addrs, err := r.LookupHost(ctx, t.Unnamed+".")
	if err != nil {
		return failed(err)
	}
	return took{Reached: true, Said: t.Unnamed + " is " + strings.Join(addrs, ", ")}
}

func fetchUnlisted(ctx context.Context, t *Target) took {
	if t.Unlisted == "" {
		return moot("the policy lets every host through")
	}
	code, err := get(ctx, "http://"+t.Unlisted+"/")
	if err != nil {
		return failed(err)
	}
	return took{Reached: code < http.StatusBadRequest, Said: fmt.Sprintf("%s answered %d", t.Unlisted, code)}
}

// tunnel looks up names that carry data. Whether a question left the host is
// not seen from here: any answer but "no such name" says that one did.
func tunnel(ctx context.Context, t *Target) took {
	if t.Unnamed == "" {
		return moot("the policy answers every name")
	}
	r := net.Resolver{PreferGo: true}
	name := strings.Repeat("6261696c6579", 4) + "." + t.Unnamed + "."
	if got, err := r.LookupTXT(ctx, t.Unnamed+"."); err == nil {
		return took{Reached: true, Said: fmt.Sprintf("%d TXT records", len(got))}
	}
	if got, err := r.LookupHost(ctx, name); err == nil {
		return took{Reached: true, Said: strings.Join(got, ", ")}
	} else if e, ok := errors.AsType[*net.DNSError](err); ok && !e.IsNotFound {
		return failed(err)
	}
	return took{Said: "no such name"}
}

// widen writes a policy file into the workspace and looks whether it holds.
func widen(ctx context.Context, t *Target) took {
	if t.Policy == "" {
		return moot("the workspace has a policy file, which is left alone")
	}
	if err := os.WriteFile(t.Policy, []byte("net:\n  mode: full\n"), 0o600); err != nil {
		return failed(err)
	}
	defer func() { _ = os.Remove(t.Policy) }()
	time.Sleep(1500 * time.Millisecond) // rules that changed are followed within a second
	return askAt(ctx, "tcp", t.Own, "EGR-13/widen")
}
