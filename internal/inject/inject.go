package inject

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
)

// Held is a secret as one sandbox holds it.
type Held struct {
	ID          secret.ID
	Name        string
	Placeholder string        // this sandbox's, random
	Value       seal.Secret   // empty: it was withdrawn; its placeholder is refused everywhere
	Former      []seal.Secret // values before rotations in this run: still kept out of answers
	Rules       []secret.Rule
}

// Target is the host that a request goes to.
type Target struct {
	Host   string // normalised name, or an address
	Port   uint16
	Secure bool // TLS that ends in this process on both sides: the host proves the name before anything is written to it
}

// Use is one request that carried a value.
type Use struct {
	ID     secret.ID
	Name   string
	Host   string
	Port   uint16
	Method string
	Class  string // of the path: see secret.Rule.Class
	Status int    // of the answer; 0: there was none
}

// Refusal is why a request is not passed on. It quotes no placeholder and no
// value.
type Refusal struct {
	Reason string // one of the Reason constants
	Secret string // name
	Detail string // a sentence
}

// The reasons of refusals.
const (
	ReasonWrongHost  = "secret-wrong-host"  // no rule of the secret names the host and port
	ReasonPlain      = "secret-plain-http"  // no value goes out over plain HTTP
	ReasonMisplaced  = "secret-misplaced"   // the right host, another place than the rule's
	ReasonNotCovered = "secret-not-covered" // the right host, a method or path that the rule leaves out
	ReasonWithdrawn  = "secret-withdrawn"   // it was revoked or withdrawn while the sandbox ran
)

// Error is the sentence.
func (r *Refusal) Error() string { return r.Detail }

// Lender holds the secrets of a sandbox. It is safe for concurrent use; the
// zero Lender holds none.
type Lender struct{ now atomic.Pointer[set] }

// Adopt puts secrets in place of those before. It returns the ids of those
// whose value or rules are others now, or which are gone: what goes on with
// them has to end.
func (l *Lender) Adopt(held []Held) (changed []secret.ID, err error)

// Lend judges the head of a request as it came from the sandbox, changing
// nothing, and returns what is to be done to it; or a *Refusal.
func (l *Lender) Lend(r *http.Request, to Target) (*Loan, error)

// Loan is what one request is lent, which may be nothing.
type Loan struct{}

// IDs are the secrets whose values it carries.
func (l *Loan) IDs() []secret.ID

// Apply puts the values on the request that goes out, a copy of the one that
// was judged, and wraps its body: a placeholder in it ends it with a *Refusal
// from Read, before any byte of it went out.
func (l *Loan) Apply(out *http.Request)

// Answer takes values out of an answer's fields and body, undoing compression
// where need be; an upgraded connection's too, in both directions, whose Read
// and Write fail with a *Refusal. It returns an error where that cannot be done,
// and then nothing of the answer may be passed on.
func (l *Loan) Answer(res *http.Response) error

// Uses are what the request counts as, with the status of its answer.
func (l *Loan) Uses(status int) []Use

var _ io.Reader // the rest is the implementation's
