package inject

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
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
type Refusal struct { //nolint:errname // it is a value first
	Reason string // one of the Reason constants
	Secret string // name
	Detail string // a sentence
}

// The reasons of refusals.
const (
	ReasonWrongHost  = policy.ReasonSecretWrongHost
	ReasonPlain      = policy.ReasonSecretPlain
	ReasonMisplaced  = policy.ReasonSecretMisplaced
	ReasonNotCovered = policy.ReasonSecretNotCovered
	ReasonWithdrawn  = policy.ReasonSecretWithdrawn
)

// Error is the sentence.
func (r *Refusal) Error() string { return r.Detail }

// MinValue is how many bytes a value has at least, and MinPlaceholder a
// placeholder: shorter ones cannot be told from other text.
const (
	MinValue       = minText
	MinPlaceholder = 2 * minText
)

// maxFormer is how many values of a secret are kept out of answers besides the
// one of now.
const maxFormer = 16

// Lender holds the secrets of a sandbox. It is safe for concurrent use; the
// zero Lender holds none.
type Lender struct {
	mu    sync.Mutex // of those who adopt
	now   atomic.Pointer[set]
	heads sync.Pool // of *headBuffers
	odd   sync.Map  // hosts (string) whose messages are no longer taken for such
	room  room
}

// set is what a Lender holds at a time. It is not changed after it was made.
type set struct {
	secrets []Held
	hosts   map[secret.ID][]secret.Host // of all rules of now and before: whoever was sent a value may keep it
	asked   *matcher                    // placeholders, in requests
	names   *matcher                    // and in names of fields

	mu    sync.Mutex
	kepts map[string]*kept // by which secrets they are of
}

// kept is what is kept out of a host's answers: values of now and before.
type kept struct {
	values *matcher
	echoed *matcher // in names of fields
}

// slack is how many leading bytes of a placeholder may go out in a body before
// the rest is there. They are those that it shares with others of its kind, or
// else few; a client that waits for an answer to what it said so far gets one.
const slack = 3

// Adopt puts secrets in place of those before. It returns the ids of those
// whose value or rules are others now, or which are gone: what goes on with
// them has to end. Values of before, also of secrets that are gone, are still
// kept out of answers, and their placeholders refused. The values are the
// Lender's from then on, and may not be wiped. On an error nothing has changed.
func (l *Lender) Adopt(held []Held) (changed []secret.ID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var before []Held
	var hosts map[secret.ID][]secret.Host
	if s := l.now.Load(); s != nil {
		before, hosts = s.secrets, s.hosts
	}
	held = slices.Clone(held)
	for i := range held {
		if err := held[i].Check(); err != nil {
			return nil, err
		}
		for _, old := range before {
			if old.ID == held[i].ID && held[i].follow(old) {
				changed = append(changed, old.ID)
			}
		}
	}
	for _, old := range before {
		if slices.ContainsFunc(held, func(h Held) bool { return h.ID == old.ID }) {
			continue
		}
		if old.Value.Len() > 0 {
			changed = append(changed, old.ID)
		}
		gone := old
		gone.Value = seal.Secret{}
		gone.follow(old)
		held = append(held, gone)
	}
	l.now.Store(newSet(held, hosts))
	return changed, nil
}

// follow takes over what was of a secret before, and reports whether what goes
// on with it has to end.
func (h *Held) follow(old Held) bool {
	former := slices.Clone(h.Former)
	for _, v := range append([]seal.Secret{old.Value}, old.Former...) {
		if v.Len() >= MinValue && !v.Equal(h.Value) && !slices.ContainsFunc(former, v.Equal) {
			former = append(former, v)
		}
	}
	h.Former = former[:min(len(former), maxFormer)]
	return !h.Value.Equal(old.Value) || h.Placeholder != old.Placeholder || !slices.EqualFunc(h.Rules, old.Rules, sameRule)
}

func sameRule(a, b secret.Rule) bool {
	return slices.Equal(a.Hosts, b.Hosts) && slices.Equal(a.Methods, b.Methods) && slices.Equal(a.Paths, b.Paths) && a.Place == b.Place
}

// Check refuses what cannot be lent or kept out of answers.
func (h *Held) Check() error {
	bad := func(problem string) error {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("the secret %s: %s", h.Name, problem), "give its value again: bailey secret rotate "+h.Name)
	}
	if len(h.Placeholder) < MinPlaceholder {
		return bad(fmt.Sprintf("its placeholder is shorter than %d bytes", MinPlaceholder))
	}
	for _, v := range append([]seal.Secret{h.Value}, h.Former...) {
		if n := v.Len(); n > 0 && n < MinValue {
			return bad(fmt.Sprintf("its value is shorter than %d bytes, so it could not be kept out of answers", MinValue))
		}
	}
	for _, r := range h.Rules {
		if err := r.Check(); err != nil {
			return fmt.Errorf("the secret %s: %w", h.Name, err)
		}
		if h.Value.Len() > 0 && !fitsPlace(r.Place, reveal(h.Value)) {
			return bad(fmt.Sprintf("its value holds characters that cannot stand in its place (%s)", r.Place))
		}
	}
	return nil
}

// fitsPlace reports whether a value can stand in a place without saying more
// than itself (B028).
func fitsPlace(p secret.Place, value []byte) bool {
	switch p.Kind {
	case secret.Header:
		s := fill(p.Format, string(value))
		return httpguts.ValidHeaderFieldValue(s) && strings.TrimSpace(s) == s
	case secret.Basic:
		return !bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f })
	case secret.Cookie: // RFC 6265 §4.1.1, and what browsers send besides
		return !bytes.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`;,"\`, r) })
	case secret.Query:
		return true
	}
	return false
}

// newSet compiles what is looked for, with the hosts of rules before.
func newSet(held []Held, hosts map[secret.ID][]secret.Host) *set {
	s := &set{secrets: held, hosts: maps.Clone(hosts), kepts: map[string]*kept{}}
	if s.hosts == nil {
		s.hosts = map[secret.ID][]secret.Host{}
	}
	asked, names := forms{slack: slack}, forms{}
	for i, h := range held {
		s.hosts[h.ID] = withHosts(s.hosts[h.ID], h.Rules)
		asked.add(i, []byte(h.Placeholder), nil)
		names.folded(i, []byte(h.Placeholder))
	}
	s.asked, s.names = newMatcher(asked.pats), newMatcher(names.pats)
	return s
}

// withHosts adds those of rules, each once.
func withHosts(hosts []secret.Host, rules []secret.Rule) []secret.Host {
	out := slices.Clone(hosts)
	for _, r := range rules {
		for _, host := range r.Hosts {
			if !slices.Contains(out, host) {
				out = append(out, host)
			}
		}
	}
	return out
}

// kept is what answers of a host are kept free of: values of the secrets that it
// is or was a host of, and of those without any rule. Of others it has none to
// show, and whoever shares a host with the sandbox could have it show guesses,
// and see which of them do not arrive.
func (s *set) kept(host string) *kept {
	which := make([]byte, len(s.secrets))
	for i, h := range s.secrets {
		if hosts := s.hosts[h.ID]; len(hosts) == 0 || anyNames(hosts, host) {
			which[i] = 1
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kepts[string(which)]
	if k == nil {
		k = s.keep(which)
		s.kepts[string(which)] = k
	}
	return k
}

// keep compiles what is kept out of answers.
func (s *set) keep(which []byte) *kept {
	values, echoed := forms{}, forms{}
	for i, h := range s.secrets {
		if which[i] == 0 {
			continue
		}
		for _, v := range append([]seal.Secret{h.Value}, h.Former...) {
			if text := bytes.Clone(reveal(v)); len(text) >= MinValue {
				values.add(i, text, coverOf(text, h.Placeholder))
				echoed.folded(i, text)
			}
		}
	}
	k := &kept{values: newMatcher(values.pats), echoed: newMatcher(echoed.pats)}
	k.values.guarded = true
	return k
}

// empty reports whether there is nothing to be done at all.
func (s *set) empty() bool { return s == nil || len(s.secrets) == 0 }

// reveal is the one place in which values come out: to be looked for, and to be
// put on requests.
func reveal(s seal.Secret) []byte { return s.Reveal() }

// namesHost reports whether a host is one of a secret's, whatever its port.
func namesHost(rules []secret.Rule, host string) bool {
	return slices.ContainsFunc(rules, func(r secret.Rule) bool { return anyNames(r.Hosts, host) })
}

func anyNames(hosts []secret.Host, host string) bool {
	return slices.ContainsFunc(hosts, func(h secret.Host) bool { return h.Matches(host, h.Port) })
}

// of reports whether a host is, or was, one of any secret's.
func (s *set) of(host string) bool {
	for _, hosts := range s.hosts {
		if anyNames(hosts, host) {
			return true
		}
	}
	return false
}
