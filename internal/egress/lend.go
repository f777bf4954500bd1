package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// Lender holds the secrets of the sandbox: it says what a request is lent, or
// why it goes nowhere. Its errors that are about the request are Unlent.
type Lender interface {
	// Lend judges the head of a request that the policy allows, and changes
	// nothing. secure: the host proves its name before anything is written.
	Lend(r *http.Request, host string, port uint16, secure bool) (Loan, error)
}

// Loan is what one request is lent, which may be nothing.
type Loan interface { //nolint:interfacebloat // it is one request from its head to the last word about it
	// IDs are the secrets that it carries.
	IDs() []string
	// Apply puts values on the request that goes out. Its body may fail with
	// an Unlent from then on.
	Apply(out *http.Request)
	// Answer takes values out of an answer. The body of one that switches
	// protocols may fail with an Unlent, in both directions.
	Answer(res *http.Response) error
	// Uses are what the request counts as.
	Uses(status int) []Use
	// Stale reports whether the secrets were changed since the request was judged.
	Stale() bool
	// Cover takes values out of a text about what the host said.
	Cover(text string) string
}

// Use is one request that carried a secret.
type Use struct {
	ID, Name string
	Class    string // of the path
}

// Unlent is why a request that names a secret is refused. Its text is a
// sentence.
type Unlent interface {
	error
	Unlent() (reason, secret string)
}

// lent is a request with its loan. It watches what the loan meets on the way.
type lent struct {
	loan    Loan
	method  string
	mu      sync.Mutex
	met     Unlent
	counted bool
}

type lentKey struct{}

// lentTo returns the loan of a request, or nil where there are no secrets.
func lentTo(r *http.Request) *lent {
	l, _ := r.Context().Value(lentKey{}).(*lent)
	return l
}

// lend judges a request that the rules let through by the secrets of the
// sandbox, and returns it with what it is lent. The caller holds e.mu.
func (e *exchange) lend(r *http.Request) (*http.Request, bool) {
	f := e.f
	if f.p.cfg.Lender == nil {
		return r, true
	}
	for {
		loan, err := f.p.cfg.Lender.Lend(r, e.first, f.dest.Port(), e.open != nil)
		if err != nil {
			f.refuseUnlent(err)
			return r, false
		}
		with := r.WithContext(context.WithValue(r.Context(), lentKey{}, &lent{loan: loan, method: r.Method}))
		f.lending(with)
		// Recall looks for requests after a change: it has seen this one, or
		// this one sees the change.
		if !loan.Stale() {
			return with, true
		}
		f.loans.Delete(with)
	}
}

// refuseUnlent leaves the decision about a placeholder that goes nowhere.
func (f *flow) refuseUnlent(err error) {
	reason, name := policy.ReasonBadRequest, ""
	if bad, ok := errors.AsType[Unlent](err); ok {
		reason, name = bad.Unlent()
	}
	f.refuse(reason, err.Error())
	f.decision.Rule = name
}

// apply is Loan.Apply, with an eye on the body.
func (l *lent) apply(out *http.Request) {
	if l == nil {
		return
	}
	l.loan.Apply(out)
	if out.Body != nil && out.Body != http.NoBody {
		out.Body = &watched{out.Body, l}
	}
}

// answer is Loan.Answer, and records what the request carried.
func (e *exchange) answer(res *http.Response) error {
	l := lentTo(res.Request)
	if l == nil {
		return nil
	}
	if err := l.loan.Answer(res); err != nil {
		return fmt.Errorf("the answer cannot be looked through for secrets: %w", err)
	}
	e.count(l, res.StatusCode)
	if both, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = &watchedBoth{both, l}
	}
	return nil
}

// count records the uses of a request, once. Status 0: it had no answer.
func (e *exchange) count(l *lent, status int) {
	l.mu.Lock()
	counted := l.counted
	l.counted = true
	l.mu.Unlock()
	if counted {
		return
	}
	f := e.f
	for _, u := range l.loan.Uses(status) {
		var ev bailey.Event
		ev.Time, ev.Type, ev.Sandbox = f.p.cfg.Now(), bailey.EventSecretUse, f.p.cfg.Sandbox
		ev.Protocol, ev.Host, ev.Port = f.protocol, e.first, f.dest.Port()
		ev.Method, ev.Path, ev.Connection = printable(l.method), u.Class, f.number
		ev.Secret, ev.Name, ev.Status = u.ID, u.Name, status
		f.p.cfg.Recorder.Record(ev)
	}
}

// meet notes why something of a loan failed.
func (l *lent) meet(err error) {
	if bad, ok := errors.AsType[Unlent](err); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.met == nil {
			l.met = bad
		}
	}
}

// take returns why the request, or what became of it, was ended, to the first
// who asks.
func (l *lent) take() Unlent {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	met := l.met
	l.met = nil
	return met
}

// said is an error about a request, without values: net/http quotes what it
// could not read of an answer.
func (l *lent) said(err error) string {
	text := err.Error()
	if l != nil {
		text = l.loan.Cover(text)
	}
	return printableTo(text, maxSentence)
}

// finalOnly passes on no informational answers, which nobody looks through for
// secrets.
type finalOnly struct{ http.ResponseWriter }

// WriteHeader writes a status that is one.
func (w finalOnly) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Unwrap is for http.ResponseController.
func (w finalOnly) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ended leaves the decision about a request that was passed on, and then met
// a placeholder where none may be.
func (e *exchange) ended(r *http.Request) {
	l := lentTo(r)
	if l == nil {
		return
	}
	e.count(l, 0) // if it had no answer
	if bad := l.take(); bad != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.refuseLate(r, bad)
	}
}

// refuseLate leaves the decision about a request that went wrong on its way,
// which is the connection's, or over HTTP/2 on record at once.
func (e *exchange) refuseLate(r *http.Request, bad Unlent) *refusal {
	f := e.f
	before := f.decision
	f.refuseUnlent(bad)
	no := &refusal{http.StatusForbidden, f.decision}
	if e.guard == nil {
		f.seen = askedOf(r)
		f.recordRequest(true)
		f.decision, f.seen = before, e.opening
	}
	return no
}

// watched is a request's body.
type watched struct {
	io.ReadCloser
	l *lent
}

// Read reads, and notes a refusal.
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	w.l.meet(err)
	return n, err
}

// watchedBoth is a connection that has switched protocols.
type watchedBoth struct {
	io.ReadWriteCloser
	l *lent
}

// Read reads from the host, and notes a refusal.
func (w *watchedBoth) Read(b []byte) (int, error) {
	n, err := w.ReadWriteCloser.Read(b)
	w.l.meet(err)
	return n, err
}

// Write writes to the host, and notes a refusal.
func (w *watchedBoth) Write(b []byte) (int, error) {
	n, err := w.ReadWriteCloser.Write(b)
	w.l.meet(err)
	return n, err
}

// lending notes that a request is under way with what it was lent.
func (f *flow) lending(r *http.Request) {
	if l := lentTo(r); l != nil {
		if ids := l.loan.IDs(); len(ids) > 0 {
			f.loans.Store(r, ids)
		}
	}
}

// Recall resets every connection on which a request is under way that carries
// one of some secrets: they were changed, or taken back. It returns how many.
func (p *Proxy) Recall(ids []string) (cut int) {
	if len(ids) == 0 {
		return 0
	}
	for _, f := range p.all() {
		f.loans.Range(func(_, v any) bool {
			carried, ok := v.([]string)
			if ok && slices.ContainsFunc(carried, func(id string) bool { return slices.Contains(ids, id) }) {
				f.cut(bailey.Decision{Verdict: bailey.Deny, Rule: "", Reason: policy.ReasonPolicyChanged, Detail: "a secret that a request under way carries was changed or withdrawn"})
				cut++
				return false
			}
			return true
		})
	}
	return cut
}
