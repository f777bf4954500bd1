package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// Resolver finds the records of a name: the IPv4 addresses or TXT records of a
// normalised one, the services of one such as _imap._tcp.example.com. An error
// that wraps policy.ErrNoAddress says there are none.
type Resolver interface {
	Lookup(ctx context.Context, name string) ([]netip.Addr, error)
	LookupTXT(ctx context.Context, name string) ([]string, error)
	LookupSRV(ctx context.Context, name string) ([]*net.SRV, error)
}

// Recorder takes an event. It is called from many goroutines and may block.
type Recorder interface {
	Record(ev bailey.Event)
}

// Config is what a Responder needs; every field.
type Config struct {
	Sandbox  bailey.SandboxID
	Rules    *policy.Live // what was answered by an older one is no permission: it is decided when it is used
	Resolver Resolver
	Recorder Recorder
	Pins     *Pins
	Now      func() time.Time
}

// Responder answers the questions of one sandbox.
type Responder struct {
	cfg     Config
	rules   *policy.Live
	rate    bucket
	repeats repeats
	slots   chan struct{} // questions being answered
}

// Bounds of a Responder: an install of a large project stays far below them,
// a flood does not get further.
const (
	maxQuestions = 64 // at once
	questionRate = 200
	questionPeak = 1000
)

// New makes a Responder; nothing runs until Run.
func New(cfg Config) *Responder {
	return &Responder{
		cfg:     cfg,
		rules:   cfg.Rules,
		rate:    bucket{perSecond: questionRate, burst: questionPeak},
		repeats: repeats{},
		slots:   make(chan struct{}, maxQuestions),
	}
}

// answer returns the bytes to send back for a packet, or nil for none. stream:
// it came by TCP.
func (r *Responder) answer(ctx context.Context, packet []byte, stream bool) []byte {
	if !r.rate.take(r.cfg.Now()) {
		return nil
	}
	q, refusal := readQuery(packet, stream)
	if q.msg == nil {
		return refusal
	}
	rules := r.rules.Now()
	if host, ok := rules.ServiceOf(q.name); ok {
		return r.answerService(ctx, rules, q, host)
	}
	name, err := policy.NormalizeName(q.name)
	if err != nil {
		return r.refuseName(q, err)
	}
	if policy.IsLocalhost(name) {
		return q.localhost() // RFC 6761 §6.3: the sandbox's own loopback
	}
	d := rules.Decide(question(name))
	if d.Verdict == bailey.Ask {
		return r.answerStandIn(q, name, d)
	}
	if d.Verdict != bailey.Allow {
		r.record(name, d)
		return q.reply(dns.RcodeNameError)
	}
	switch {
	case q.kind == dns.TypeTXT && rules.ServesTXT(name):
		texts, err := r.cfg.Resolver.LookupTXT(ctx, name)
		return r.answerRecords(q, name, d, q.textRecords(texts), err)
	case q.kind != dns.TypeA:
		return q.reply(dns.RcodeSuccess)
	case rules.StandsIn(name):
		r.record(name, d)
		return q.reply(dns.RcodeSuccess, q.records([]netip.Addr{r.cfg.Pins.standIns.of(name)})...)
	}
	return r.resolve(ctx, rules, q, name, d)
}

// answerService answers about a service that a rule names of a host.
func (r *Responder) answerService(ctx context.Context, rules *policy.Index, q query, host string) []byte {
	d := rules.Decide(question(host))
	name := strings.ToLower(strings.TrimSuffix(q.name, "."))
	switch {
	case d.Verdict != bailey.Allow:
		r.record(name, d)
		return q.reply(dns.RcodeNameError)
	case q.kind != dns.TypeSRV:
		return q.reply(dns.RcodeSuccess)
	}
	list, err := r.cfg.Resolver.LookupSRV(ctx, name)
	return r.answerRecords(q, name, d, q.serviceRecords(list), err)
}

// answerRecords answers with what a look-up found.
func (r *Responder) answerRecords(q query, name string, d bailey.Decision, found []dns.RR, err error) []byte {
	switch {
	case errors.Is(err, policy.ErrNoAddress): // other records may be there
		return q.reply(dns.RcodeSuccess)
	case err != nil:
		r.record(name, policy.Unresolved(name, d.Rule, err))
		return q.reply(dns.RcodeServerFailure)
	}
	r.record(name, d)
	return q.reply(dns.RcodeSuccess, found...)
}

// question is whether a name may be resolved.
func question(name string) policy.Request {
	return policy.Request{Protocol: policy.ProtocolDNS, Host: name}
}

// lookup finds a name's addresses. That of this machine is made up.
func (r *Responder) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if name == policy.ServiceHost {
		return []netip.Addr{policy.ServiceAddr()}, nil
	}
	return r.cfg.Resolver.Lookup(ctx, name)
}

func (r *Responder) resolve(ctx context.Context, rules *policy.Index, q query, name string, d bailey.Decision) []byte {
	addrs, err := r.lookup(ctx, name)
	if err != nil {
		rcode := dns.RcodeServerFailure
		if errors.Is(err, policy.ErrNoAddress) {
			rcode = dns.RcodeNameError
		}
		r.record(name, policy.Unresolved(name, d.Rule, err))
		return q.reply(rcode)
	}
	for _, a := range addrs { // one bad address spoils the answer
		if bad := rules.DecideAddr(question(name), d, a); bad.Verdict != bailey.Allow {
			bad.Detail = fmt.Sprintf("%s resolves to %s: %s", name, a, bad.Detail)
			r.recordAt(name, bad, a.String())
			return q.reply(dns.RcodeNameError)
		}
	}
	addrs = addrs[:min(len(addrs), maxAnswers)]
	r.cfg.Pins.Add(name, addrs, r.cfg.Now())
	r.record(name, d)
	return q.reply(dns.RcodeSuccess, q.records(addrs)...)
}

// answerStandIn answers for a name that a person is to be asked about. The
// question stays here: it could itself carry something out. An address that
// stands for the name brings the connection to the proxy, where the person is
// asked about the port as well, and the name is resolved once they agreed.
func (r *Responder) answerStandIn(q query, name string, d bailey.Decision) []byte {
	if q.kind != dns.TypeA {
		return q.reply(dns.RcodeSuccess)
	}
	r.record(name, d)
	return q.reply(dns.RcodeSuccess, q.records([]netip.Addr{r.cfg.Pins.standIns.of(name)})...)
}

// refuseName answers a name that is no host name. Underscores are the usual
// case, of service records, and simply do not exist here; anything that needs
// escaping is an attempt to be read in two ways.
func (r *Responder) refuseName(q query, err error) []byte {
	r.record(q.name, bailey.Decision{Verdict: bailey.Deny, Rule: "", Reason: policy.ReasonInvalidName, Detail: err.Error()})
	if strings.ContainsAny(q.name, "\\ ") {
		return q.reply(dns.RcodeFormatError)
	}
	return q.reply(dns.RcodeNameError)
}

func (q query) localhost() []byte {
	if q.kind != dns.TypeA {
		return q.reply(dns.RcodeSuccess)
	}
	return q.reply(dns.RcodeSuccess, q.records([]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})})...)
}

// records puts the addresses under the name that was asked for, whatever
// aliases led to them: the identity of a connection stays that name.
func (q query) records(addrs []netip.Addr) []dns.RR {
	out := make([]dns.RR, 0, len(addrs))
	for _, a := range addrs {
		out = append(out, &dns.A{
			Hdr: q.header(dns.TypeA),
			A:   a.AsSlice(),
		})
	}
	return out
}

func (r *Responder) record(host string, d bailey.Decision) { r.recordAt(host, d, "") }

// recordAt records a decision about an address that the host has.
func (r *Responder) recordAt(host string, d bailey.Decision, address string) {
	now := r.cfg.Now()
	if !r.repeats.first(repeatKey{host, d.Verdict.String(), d.Reason}, now) {
		return
	}
	var ev bailey.Event
	ev.Time = now
	ev.Type = bailey.EventNetDecision
	ev.Sandbox = r.cfg.Sandbox
	ev.Protocol = policy.ProtocolDNS
	ev.Host = host
	ev.Address = address
	ev.Verdict = d.Verdict.String()
	ev.Rule = d.Rule
	ev.Reason = d.Reason
	ev.Message = d.Detail
	r.cfg.Recorder.Record(ev)
}
