package inject

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/secret"
)

// Loan is what one request is lent, which may be nothing.
type Loan struct {
	lender *Lender
	set    *set
	at     *set // that of the lender when it was judged
	to     Target
	method string
	asked  *http.Request // as it came; its trailers are there behind its body
	puts   []put
}

// Lend judges the head of a request as it came from the sandbox, changing
// nothing, and returns what is to be done to it; or a *Refusal.
func (l *Lender) Lend(r *http.Request, to Target) (*Loan, error) {
	now := l.now.Load()
	loan := &Loan{lender: l, set: now, at: now, to: to, method: r.Method, asked: r}
	if loan.set.empty() {
		return loan, nil
	}
	h := newHead(r, &l.heads)
	defer l.heads.Put(h.buf)
	words := h.words(loan.set)
	for _, w := range words {
		p, no := loan.place(w, h)
		if no != nil {
			return nil, no
		}
		h.take(p)
		loan.puts = append(loan.puts, *p)
	}
	if len(words) == 0 {
		return loan, nil
	}
	// What is left holds no placeholder: none stands twice, or in a larger
	// token (B024), or beside a place.
	if left := h.words(loan.set); len(left) > 0 {
		return nil, loan.refuse(left[0], ReasonMisplaced)
	}
	return loan, nil
}

// place finds the one place in which a placeholder may stand.
func (l *Loan) place(word int, h *head) (*put, *Refusal) {
	if no := l.elsewhere(word); no != nil {
		return nil, no
	}
	rules := l.set.secrets[word].Rules
	covered := false
	for i := range rules {
		r := &rules[i]
		class, ok := h.coveredBy(r)
		if !ok || !r.Of(l.to.Host, l.to.Port) {
			continue
		}
		covered = true
		if p, ok := h.find(r.Place, l.set.secrets[word].Placeholder); ok {
			p.word, p.class = word, class
			return p, nil
		}
	}
	if !covered {
		return nil, l.refuse(word, ReasonNotCovered)
	}
	return nil, l.refuse(word, ReasonMisplaced)
}

// coveredBy reports whether a rule speaks of the request: of its method, also
// where the query asks for another one (B012), and of all paths that it names.
// It returns the class of its own.
func (h *head) coveredBy(r *secret.Rule) (class string, ok bool) {
	path, query, _ := strings.Cut(h.target, "?")
	class, ok = r.Class(path)
	if !ok || !r.Covers(h.r.Method, path) || len(r.Methods) > 0 && policy.OverridesMethod(query) {
		return "", false
	}
	if len(r.Paths) == 0 {
		return class, true
	}
	return class, !slices.ContainsFunc(policy.Targets(h.r.Header, h.r.Host), func(p string) bool {
		_, ok := r.Class(p)
		return !ok
	})
}

// elsewhere refuses a placeholder that may stand nowhere on a request to the
// host.
func (l *Loan) elsewhere(word int) *Refusal {
	s := &l.set.secrets[word]
	switch {
	case s.Value.Len() == 0:
		return l.refuse(word, ReasonWithdrawn)
	case !namesHost(s.Rules, l.to.Host):
		return l.refuse(word, ReasonWrongHost)
	case !l.to.Secure:
		return l.refuse(word, ReasonPlain)
	case !slices.ContainsFunc(s.Rules, func(r secret.Rule) bool { return r.Of(l.to.Host, l.to.Port) }):
		return l.refuse(word, ReasonWrongHost)
	}
	return nil
}

// refuse says why.
func (l *Loan) refuse(word int, reason string) *Refusal {
	name := l.set.secrets[word].Name
	var text string
	switch reason {
	case ReasonWrongHost:
		text = "a placeholder of the secret %s is on its way to a host that no rule of it names"
	case ReasonPlain:
		text = "a placeholder of the secret %s is on its way by plain HTTP, over which no value goes out; ask by HTTPS"
	case ReasonNotCovered:
		text = "a placeholder of the secret %s is in a request whose method or path its rule leaves out"
	case ReasonWithdrawn:
		text = "the secret %s was withdrawn while the sandbox ran, and its placeholder is worth nothing any more"
	default:
		text = "a placeholder of the secret %s stands in another place than its rule's, or in a form that is not recognised there"
	}
	return &Refusal{Reason: reason, Secret: name, Detail: fmt.Sprintf(text+"; bailey secret show %s says where it may go", name, name)}
}

// refuseBody says why a request ends whose head was well.
func (l *Loan) refuseBody(word int) *Refusal {
	no := l.elsewhere(word)
	if no == nil {
		no = l.refuse(word, ReasonMisplaced)
	}
	return no
}

// Stale reports whether other secrets were adopted since the request was judged.
func (l *Loan) Stale() bool { return l.lender.now.Load() != l.at }

// IDs are the secrets whose values it carries.
func (l *Loan) IDs() []secret.ID {
	var ids []secret.ID
	for _, p := range l.puts {
		ids = append(ids, l.set.secrets[p.word].ID)
	}
	return ids
}

// Uses are what the request counts as, with the status of its answer.
func (l *Loan) Uses(status int) []Use {
	var uses []Use
	for _, p := range l.puts {
		s := l.set.secrets[p.word]
		uses = append(uses, Use{ID: s.ID, Name: s.Name, Host: l.to.Host, Port: l.to.Port, Method: l.method, Class: p.class, Status: status})
	}
	return uses
}
