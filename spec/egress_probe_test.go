package spec_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// atOnce is how long a refusal may take.
const atOnce = time.Second

// attempt is one thing that testdata/netprobe tries; the type is the same
// there. What comes of it is held against two expectations: on the host, with
// nothing in the way (the twin), and inside.
type attempt struct {
	Name   string        `json:"name"`
	Op     string        `json:"op"`
	Net    string        `json:"net,omitempty"`
	To     string        `json:"to,omitempty"`
	From   string        `json:"from,omitempty"`
	Send   [][]byte      `json:"send,omitempty"`
	Gap    time.Duration `json:"gap,omitempty"`
	SNI    string        `json:"sni,omitempty"`
	First  bool          `json:"first,omitempty"`
	Wait   time.Duration `json:"wait,omitempty"`
	Quick  time.Duration `json:"quick,omitempty"`
	Domain int           `json:"domain,omitempty"`
	Type   int           `json:"type,omitempty"`
	Proto  int           `json:"proto,omitempty"`
	Argv   []string      `json:"argv,omitempty"`
	Beside bool          `json:"beside,omitempty"`
	Delay  time.Duration `json:"delay,omitempty"`

	host   want // nil: there is nothing to see on the host
	inside want
}

// verdict is what came of an attempt.
type verdict struct {
	Name      string        `json:"name"`
	Connected bool          `json:"connected"`
	Err       string        `json:"err"`
	Data      []byte        `json:"data"`
	Took      time.Duration `json:"took"`
}

// String is what a failed test says.
func (v verdict) String() string {
	data := v.Data
	if len(data) > 600 {
		data = data[:600]
	}
	return fmt.Sprintf("connected %v, error %q, after %v, data %q", v.Connected, v.Err, v.Took.Round(time.Millisecond), data)
}

// want says what is wrong with a result; "" is nothing.
type want func(verdict) string

// reaches wants an answer that has a text.
func reaches(text string) want {
	return func(v verdict) string {
		if bytes.Contains(v.Data, []byte(text)) {
			return ""
		}
		return fmt.Sprintf("want an answer with %q", text)
	}
}

// works wants no error.
func works(v verdict) string {
	if v.Err != "" {
		return "want no error"
	}
	return ""
}

// fails wants one of these errors, no answer, and all of it at once.
func fails(errs ...string) want {
	return func(v verdict) string {
		switch {
		case len(v.Data) > 0:
			return "want no answer"
		case !slices.Contains(errs, v.Err):
			return "want one of " + strings.Join(errs, ", ")
		case v.Took > atOnce:
			return fmt.Sprintf("want it within %v", atOnce)
		}
		return ""
	}
}

// gets403 wants bailey's answer to a refused HTTP request: why, and what would
// allow it.
func gets403(reason string, texts ...string) want {
	return getsStatus("403 Forbidden", reason, texts...)
}

func getsStatus(status, reason string, texts ...string) want {
	return func(v verdict) string {
		for _, text := range append([]string{"HTTP/1.1 " + status, "X-Bailey-Reason: " + reason}, texts...) {
			if !bytes.Contains(v.Data, []byte(text)) {
				return fmt.Sprintf("want an answer with %q", text)
			}
		}
		if v.Took > atOnce {
			return fmt.Sprintf("want it within %v", atOnce)
		}
		return ""
	}
}

// silence wants no answer; how that shows is the program's own affair.
func silence(v verdict) string {
	if len(v.Data) > 0 {
		return "want no answer"
	}
	return ""
}

// sent wants the attempt to have got as far as the network: a socket that
// cannot be made says nothing of what the network would have done.
func sent(w want) want {
	return func(v verdict) string {
		if !v.Connected {
			return "want it sent"
		}
		return w(v)
	}
}

// slowly wants an expectation to hold, however long it takes.
func slowly(w want) want {
	return func(v verdict) string { v.Took = 0; return w(v) }
}

// web is an HTTP request to an address for a host.
func web(name, to, host string, onHost, inside want) attempt {
	return say(name, to, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n", onHost, inside)
}

// say sends a text over TCP and reads the answer to its end.
func say(name, to, text string, onHost, inside want) attempt {
	return attempt{Name: name, Op: "dial", Net: "tcp", To: to, Send: [][]byte{[]byte(text)}, Quick: atOnce, host: onHost, inside: inside}
}

// echo sends a text over TCP and reads the first bytes of the answer.
func echo(name, to, text string, onHost, inside want) attempt {
	a := say(name, to, text, onHost, inside)
	a.First = true
	return a
}

// secure is an HTTPS request to an address for a server name; the Host inside
// is the same.
func secure(name, to, sni string, onHost, inside want) attempt {
	a := web(name, to, sni, onHost, inside)
	a.Op, a.SNI = "tls", sni
	return a
}

// greet sends a ClientHello with any server name. What the server says first
// tells that it was reached.
func greet(t *testing.T, name, to, sni string, inside want) attempt {
	t.Helper()
	return echo(name, to, string(clientHello(t, sni, nil)), reaches("\x16\x03"), inside)
}

// packet sends a packet over UDP and waits for one.
func packet(name, to string, b []byte, onHost, inside want) attempt {
	return attempt{Name: name, Op: "dial", Net: "udp", To: to, Send: [][]byte{b}, Wait: 3 * time.Second, Quick: atOnce, host: onHost, inside: inside}
}

// ask sends a DNS question to a server.
func ask(t *testing.T, name, network, server, host string, kind uint16, onHost, inside want) attempt {
	t.Helper()
	m := new(dns.Msg).SetQuestion(dns.Fqdn(host), kind)
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return askBytes(name, network, server, b, onHost, inside)
}

func askBytes(name, network, server string, b []byte, onHost, inside want) attempt {
	if network == "tcp" {
		b = append([]byte{byte(len(b) >> 8), byte(len(b))}, b...)
		return echo(name, server, string(b), onHost, inside)
	}
	return packet(name, server, b, onHost, inside)
}

// answers wants a DNS message with this code and these addresses.
func answers(rcode int, addrs ...netip.Addr) want {
	return func(v verdict) string {
		data := v.Data
		m := new(dns.Msg)
		if m.Unpack(data) != nil && (len(data) < 2 || m.Unpack(data[2:]) != nil) { // TCP has the length before it
			return "want a DNS message"
		}
		var got []netip.Addr
		for _, rr := range m.Answer {
			switch r := rr.(type) {
			case *dns.A:
				a, _ := netip.AddrFromSlice(r.A)
				got = append(got, a.Unmap())
			case *dns.AAAA:
				a, _ := netip.AddrFromSlice(r.AAAA)
				got = append(got, a)
			default:
				return "want no record but addresses, got " + rr.String()
			}
		}
		if m.Rcode != rcode || !slices.Equal(got, addrs) {
			return fmt.Sprintf("got %s %v, want %s %v", dns.RcodeToString[m.Rcode], got, dns.RcodeToString[rcode], addrs)
		}
		return ""
	}
}

var buildProbe = sync.OnceValues(func() ([]byte, error) { return buildTestdata("netprobe") })

// buildTestdata returns a static program of testdata.
func buildTestdata(name string) ([]byte, error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", name, err, b)
	}
	return os.ReadFile(out)
}

// putProbe writes the probe and a list of attempts into the workspace.
func putProbe(t *testing.T, y *yard.Yard, list []attempt) {
	t.Helper()
	bin, err := buildProbe()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(y.Write(t, "netprobe", string(bin)), 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	y.Write(t, "attempts.json", string(data))
}

// attack makes the attempts in a sandbox of the yard and holds what came of
// them to what is wanted inside. It returns the run's end, with the events.
func attack(t *testing.T, y *yard.Yard, list []attempt, flags ...string) yard.Result {
	t.Helper()
	putProbe(t, y, list)
	args := append(append([]string{"run"}, flags...), "--", "./netprobe", "attempts.json")
	r := y.Run(t, args...).OK(t)
	holdAll(t, "inside", list, r.Stdout, func(a attempt) want { return a.inside })
	return r
}

// twin makes the same attempts on the host of a lab, as root and with nothing
// in the way: those that can succeed do.
func twin(t *testing.T, lab *netlab.Lab, list []attempt) {
	t.Helper()
	y := yard.Root(t)
	list = slices.DeleteFunc(slices.Clone(list), func(a attempt) bool { return a.host == nil })
	for i := range list {
		list[i].Quick = 0 // how long it takes there says nothing
	}
	putProbe(t, y, list)
	ctx, cancel := context.WithTimeout(t.Context(), yard.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(y.Dir, "netprobe"), "attempts.json")
	cmd.Dir = y.Dir
	lab.Enter(cmd)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("twin: %v", err)
	}
	holdAll(t, "on the host", list, string(out), func(a attempt) want { return a.host })
}

func holdAll(t *testing.T, where string, list []attempt, out string, pick func(attempt) want) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(out))
	for _, a := range list {
		var v verdict
		if err := d.Decode(&v); err != nil || v.Name != a.Name {
			t.Fatalf("%s: no result of %q: %v\n%s", where, a.Name, err, out)
		}
		w := pick(a)
		if w == nil {
			continue
		}
		if problem := w(v); problem != "" {
			t.Errorf("%s: %s: %s; got: %v", where, a.Name, problem, v)
		}
	}
}

// both returns a lab for the twins and makes them, then runs f as root and as
// the user, each in a lab of its own that prepare has changed like the first.
func both(t *testing.T, list []attempt, prepare func(*netlab.Lab), f func(*testing.T, *yard.Yard, *netlab.Lab)) {
	t.Helper()
	t.Run("twin", func(t *testing.T) {
		lab := netlab.New(t)
		prepare(lab)
		twin(t, lab, list)
	})
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		prepare(lab)
		y.Wrap = lab.Enter
		f(t, y, lab)
	})
}

// stayed holds that nothing left the machine but connections by TCP to these
// addresses and DNS questions for these names to the host's own resolver.
func stayed(t *testing.T, lab *netlab.Lab, to []netip.AddrPort, names ...string) {
	t.Helper()
	for _, c := range lab.Connections() {
		asks := c.To == netip.AddrPortFrom(netlab.Resolver, 53)
		if !asks && (c.Proto != "tcp" || !slices.Contains(to, c.To)) {
			t.Errorf("%s to %s left the sandbox", c.Proto, c.To)
		}
	}
	for _, q := range lab.Questions() {
		if !slices.Contains(names, strings.TrimSuffix(q.Name, ".")) {
			t.Errorf("the question %s %s left the sandbox", q.Type, q.Name)
		}
	}
}

// decisions returns the events about the network in the output of --json.
func decisions(t *testing.T, r yard.Result) []bailey.Event {
	t.Helper()
	var list []bailey.Event
	for line := range strings.Lines(r.Stderr) {
		var ev bailey.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Errorf("not an event: %q: %v", line, err)
			continue
		}
		if ev.Type == bailey.EventNetDecision {
			list = append(list, ev)
		}
	}
	return list
}

// clientHello returns the bytes of a ClientHello with any server name and
// further extensions.
func clientHello(t *testing.T, name string, extra []byte) []byte {
	t.Helper()
	const stand = "stand-in.test"
	a, b := net.Pipe()
	go func() { _ = tls.Client(a, &tls.Config{ServerName: stand}).Handshake(); _ = a.Close() }()
	buf := make([]byte, 16<<10)
	n, err := b.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	h := buf[:n]
	i := bytes.Index(h, []byte(stand))
	if i < 0 {
		t.Fatal("no server name in the ClientHello")
	}
	add16(h[i-2:], len(name)-len(stand)) // the name, its entry, the list: each with its length before it
	add16(h[i-5:], len(name)-len(stand))
	add16(h[i-7:], len(name)-len(stand))
	growHello(h, len(name)-len(stand)+len(extra))
	return slices.Concat(h[:i], []byte(name), h[i+len(stand):], extra)
}

func add16(b []byte, n int) {
	n += int(b[0])<<8 | int(b[1])
	b[0], b[1] = byte(n>>8), byte(n)
}

// growHello adds to the lengths of the record, the message and its extensions.
func growHello(h []byte, by int) {
	at := 5 + 4 + 2 + 32
	at += 1 + int(h[at])
	at += 2 + int(h[at])<<8 + int(h[at+1])
	at += 1 + int(h[at])
	add16(h[3:], by)
	add16(h[7:], by)
	add16(h[at:], by)
}

// icmpEcho is an echo request (RFC 792) with a payload to carry out.
func icmpEcho() []byte {
	b := append([]byte{8, 0, 0, 0, 0, 7, 0, 1}, "payload-of-a-tunnel!"...)
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	sum = sum>>16 + sum&0xffff
	sum = ^(sum + sum>>16)
	b[2], b[3] = byte(sum>>8), byte(sum)
	return b
}

// beside makes an attempt that may wait for an answer for long, while the others go on.
func beside(a attempt) attempt {
	a.Beside, a.Quick = true, 0
	return a
}

// raw makes a socket and sends through it if it has somewhere to.
func raw(name string, domain, kind, proto int, to string, b []byte, onHost, inside want) attempt {
	a := attempt{
		Name: name, Op: "socket", Domain: domain, Type: kind, Proto: proto, To: to,
		Wait: 3 * time.Second, Quick: atOnce, host: onHost, inside: inside,
	}
	if b != nil {
		a.Send = [][]byte{b}
	}
	return a
}

// IPPROTO numbers that package syscall does not have.
const (
	ipUDPLite = 136
	ipMPTCP   = 262
	ipSCTP    = 132
	afVsock   = 40
	afXDP     = 44
)

// script runs a script of the sandbox's shell as one attempt.
func script(name, script string, onHost, inside want) attempt {
	return attempt{Name: name, Op: "exec", Argv: []string{"/bin/sh", "-c", script}, host: onHost, inside: inside}
}
