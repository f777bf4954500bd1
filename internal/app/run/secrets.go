package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/inject"
	"github.com/bailey-dev/bailey/internal/leak"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/vault"
)

// lentSecret is a secret of a run.
type lentSecret struct {
	secret.Definition
	value       seal.Secret
	placeholder string
	variable    string
}

// lending is what a run is lent. The vault stays open, since what opened it may
// not be there a second time; it is nil where there are no secrets.
type lending struct {
	secrets []lentSecret
	vault   *vault.Vault
	env     []string // the placeholders
	notes   []string // for the header: variables that are no secrets
}

// lend reads the secrets that a run asks for, and makes their placeholders.
func lend(h Host, r *Request, given []string) (lending, error) {
	out := lending{notes: inTheClear(given)}
	if len(r.Secrets) == 0 {
		return out, nil
	}
	// From here on this process holds values: nobody looks into it, and it
	// leaves no core file.
	err := errors.Join(harden.NoCore(), harden.Undumpable())
	if err != nil {
		return out, err
	}
	place := h.Vault()
	if err := expect(place, r); err != nil {
		return out, err
	}
	if out.vault, err = vault.Open(place); err != nil {
		return out, err
	}
	if out.secrets, err = lendFrom(out.vault, r); err != nil {
		return out, err
	}
	out.env, err = secretEnv(out.secrets, given)
	return out, err
}

// expect refuses what cannot be lent before a person is asked for a passphrase.
func expect(p vault.Place, r *Request) error {
	for _, spec := range r.Secrets {
		name, variable, given := strings.Cut(spec, "=")
		if err := secret.CheckName(name); err != nil {
			return ofFlag("--secret", err)
		}
		if given && secret.CheckVariable(variable) != nil {
			// It is not repeated: it may be a value.
			return bailey.NewError(bailey.Invalid, fmt.Sprintf("--secret %s: what stands behind the equals sign is no variable's name", name), "it is --secret NAME=VAR, and no place for a value: bailey secret set NAME keeps one")
		}
		if err := p.Expect(name); err != nil {
			return ofFlag("--secret "+name, err)
		}
	}
	return nil
}

// ofFlag puts the flag before what is wrong with it.
func ofFlag(flag string, err error) error {
	e, ok := errors.AsType[*bailey.Error](err)
	if !ok || e.Kind != bailey.NotFound && e.Kind != bailey.Invalid {
		return err // the vault's own trouble
	}
	return &bailey.Error{Kind: e.Kind, Message: flag + ": " + e.Message, Hint: e.Hint, Cause: e.Cause}
}

func lendFrom(v *vault.Vault, r *Request) ([]lentSecret, error) {
	var out []lentSecret
	for _, spec := range r.Secrets {
		name, variable, given := strings.Cut(spec, "=")
		d, value, err := v.Get(name)
		if err != nil {
			return nil, ofFlag("--secret "+name, err)
		}
		if !given {
			variable = d.Var
		}
		if err := lendable(d, variable, out); err != nil {
			return nil, err
		}
		s := lentSecret{Definition: d, value: value, placeholder: secret.NewPlaceholder(value.Reveal(), d.Keep), variable: variable}
		if err := s.check(); err != nil {
			return nil, err
		}
		out = append(out, s)
		r.lent = append(r.lent, hostsOf(d)...)
	}
	return out, nil
}

// lendable refuses what cannot be lent beside others.
func lendable(d secret.Definition, variable string, others []lentSecret) error {
	bad := func(problem, hint string) error {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("--secret %s: %s", d.Name, problem), hint)
	}
	if d.Gateway {
		return bad("it is for the model gateway alone", "bailey secret set makes one for a host")
	}
	if err := secret.CheckVariable(variable); err != nil {
		return bad(err.Error(), "use --secret NAME=VAR")
	}
	if isTaken(variable) {
		return bad(variable+" says how programs run, or is bailey's own variable", "use --secret NAME=VAR with another")
	}
	for _, o := range others {
		switch {
		case o.ID == d.ID:
			return bad("it is named twice", fmt.Sprintf("one placeholder is enough: name it once; it is in %s", o.variable))
		case o.variable == variable:
			return bad(fmt.Sprintf("its variable %s is that of --secret %s already", variable, o.Name), "name another for one of them: --secret NAME=VAR")
		}
	}
	return nil
}

// isTaken reports whether a placeholder in a variable would change how programs
// run and find things, or what bailey says by it.
func isTaken(variable string) bool {
	upper := strings.ToUpper(variable)
	return strings.HasPrefix(upper, "BAILEY_") || strings.HasPrefix(upper, "LD_") || upper == noProxy || slices.Contains(proxyVariables(), upper) ||
		slices.Contains([]string{"PATH", "HOME", "PWD", "SHELL", "USER", "LOGNAME", "TMPDIR", "TERM", "LANG", "TZ", "IFS", "ENV", "BASH_ENV"}, upper)
}

// hostsOf are the hosts of a secret, each once, TLS to which has to be opened.
func hostsOf(d secret.Definition) []settings.SecretHost {
	var out []settings.SecretHost
	seen := map[secret.Host]bool{}
	for _, rule := range d.Rules {
		for _, host := range rule.Hosts {
			if seen[host] {
				continue
			}
			seen[host] = true
			out = append(out, settings.SecretHost{Secret: d.Name, Rule: policy.Rule{
				Host: host.Name, Wildcard: host.Wildcard, Port: host.Port, Narrow: &policy.Narrow{Inspect: true},
			}})
		}
	}
	return out
}

// secretEnv is what the command gets of its secrets.
func secretEnv(lent []lentSecret, given []string) ([]string, error) {
	var out []string
	for _, s := range lent {
		if slices.ContainsFunc(given, func(pair string) bool { return strings.HasPrefix(pair, s.variable+"=") }) {
			return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("%s is set by --env and by --secret %s", s.variable, s.Name), "leave one of them out, or use --secret NAME=VAR")
		}
		out = append(out, s.variable+"="+s.placeholder)
	}
	return out, nil
}

// lentNotes says in the header what is lent, and to whom: a host that a rule of
// the network refuses is not among those.
func lentNotes(lent []lentSecret, p policy.Policy) []string {
	index := policy.NewIndex(p)
	var out []string
	for _, s := range lent {
		goes, refused := s.goes(index)
		note := fmt.Sprintf("secret %s: %s is a placeholder, its value goes to %s alone", s.Name, s.variable, strings.Join(goes, ", "))
		if len(goes) == 0 {
			note = fmt.Sprintf("secret %s: %s is a placeholder, its value goes nowhere", s.Name, s.variable)
		}
		if len(refused) > 0 {
			note += "; denied by the rules of the network: " + strings.Join(refused, ", ")
		}
		out = append(out, note)
	}
	return out
}

// goes are the hosts of a secret, each with what its rules are narrowed to, and
// those that are denied, each with the rule.
func (s *lentSecret) goes(index *policy.Index) (goes, refused []string) {
	narrow := map[string][]string{} // by host
	for _, rule := range s.Rules {
		for _, h := range rule.Hosts {
			if by := deniedBy(index, h); by != "" {
				text := h.String()
				if by != h.Name {
					text += " (by " + by + ")"
				}
				refused = append(refused, text)
				continue
			}
			narrow[h.String()] = append(narrow[h.String()], strings.TrimPrefix(rule.Narrowing(), ", "))
		}
	}
	for _, host := range slices.Sorted(maps.Keys(narrow)) {
		if !slices.Contains(narrow[host], "") { // else another rule is for all of it
			host += " (" + strings.Join(slices.Compact(narrow[host]), "; ") + ")"
		}
		goes = append(goes, host)
	}
	slices.Sort(refused)
	return goes, slices.Compact(refused)
}

// deniedBy returns the deny rule that refuses every request to a host, or "". Of
// a wildcard that is one for a name that nobody spelled out.
func deniedBy(index *policy.Index, h secret.Host) string {
	name := h.Name
	if h.Wildcard {
		name = "any." + name
	}
	d := index.Decide(policy.Request{Protocol: policy.ProtocolTLS, Host: name, Port: h.Port})
	if d.Verdict != bailey.Deny || d.Reason != policy.ReasonDeniedByRule {
		return ""
	}
	return d.Rule
}

// inTheClear says which variables that are passed look like a secret, which
// whatever runs inside can then read and send.
func inTheClear(env []string) []string {
	var out []string
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if kind, ok := leak.LooksLike(value); ok {
			out = append(out, fmt.Sprintf("%s enters as it is, and looks like a secret (%s): bailey secret set and --secret keep it outside", name, kind))
		}
	}
	return out
}

// CheckLendable refuses a value that could not be lent by the rules of its
// secret, with the words of the start of a run.
func CheckLendable(d secret.Definition, value seal.Secret) error {
	s := lentSecret{Definition: d, value: value, placeholder: secret.NewPlaceholder(value.Reveal(), d.Keep)}
	return s.check()
}

// forProxy is what the proxy is told of secrets.
func forProxy(lent []lentSecret) []gate.Secret {
	out := make([]gate.Secret, len(lent))
	for i := range lent {
		out[i] = gate.Reveal(lent[i].held())
	}
	return out
}

// followSecrets looks at the vault until ctx ends, and has the proxy hold what
// it says now of the secrets of this run. A vault that cannot be read changes
// nothing, and that is said.
func (r *ruling) followSecrets(ctx context.Context) {
	v := r.u.plan.vault
	place, mark := r.u.host.Vault(), v.Mark()
	settled, told := true, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(policyPoll):
		}
		now := place.Mark()
		if now == mark && settled {
			continue
		}
		settled = now == mark // once more after each change, as with the policy files
		mark = now
		var err error
		if v, err = r.reread(v); err != nil {
			settled = false // it is tried again: a value that was taken back may be lent still
		}
		if err != nil && err.Error() != told {
			r.u.warn("secrets: " + text(err) + "; what held before holds")
		}
		told = ""
		if err != nil {
			told = err.Error()
		}
	}
}

// renewSecrets has the proxy hold the secrets as they are now. What is wrong
// with one of them holds up none of the others.
func (r *ruling) renewSecrets(v *vault.Vault) error {
	lent := slices.Clone(r.u.plan.secrets)
	said, wrong := renewAll(lent, v)
	return errors.Join(r.holdSecrets(lent, said), wrong)
}

// reread returns the vault as it is now, or the one from before where it cannot
// be opened.
func (r *ruling) reread(v *vault.Vault) (*vault.Vault, error) {
	next, err := v.Reopen()
	if err == nil {
		return next, r.renewSecrets(next)
	}
	if gone := r.withdrawGone(v); gone != nil {
		err = errors.Join(err, gone)
	}
	return v, err
}

// withdrawGone takes back the secrets that are not in a vault any more whose key
// is not at hand, as after a change of keys: that they are gone is in the clear.
// Whoever could write it there without the key ends a loan, and begins none.
func (r *ruling) withdrawGone(v *vault.Vault) error {
	l, err := v.Relist()
	if err != nil || l.Unchecked == "" {
		return nil //nolint:nilerr // what is wrong is said by who opened it
	}
	lent := slices.Clone(r.u.plan.secrets)
	return r.holdSecrets(lent, withdrawMissing(lent, l))
}

// withdrawMissing takes back what a listing has not, and says what.
func withdrawMissing(lent []lentSecret, l vault.Listing) (said []string) {
	for i := range lent {
		s := &lent[i]
		if d, err := l.Find(s.Name); s.value.Len() > 0 && (err != nil || d.ID != s.ID) {
			s.withdraw()
			said = append(said, s.Name+" was withdrawn")
		}
	}
	return said
}

// holdSecrets has the proxy hold what is lent now, if anything is new.
func (r *ruling) holdSecrets(lent []lentSecret, said []string) error {
	if len(said) == 0 {
		return nil
	}
	all := forProxy(lent)
	reply, err := r.steer.tell(gate.Message{Secrets: &all})
	if err != nil {
		return err
	}
	r.u.plan.secrets = lent
	cut := ""
	if reply.Cut > 0 {
		cut = cutText(reply.Cut)
	}
	line := strings.Join(said, ", ") + cut
	r.u.out.event(bailey.Event{Type: bailey.EventSecretChanged, Message: line})
	r.u.out.say("secrets: %s", line)
	return nil
}

// renewAll takes what the vault says now of some secrets, and returns what is
// new, and what is wrong with those that stay as they were.
func renewAll(lent []lentSecret, v *vault.Vault) (said []string, wrong error) {
	for i := range lent {
		what, err := lent[i].renew(v)
		if err != nil {
			wrong = errors.Join(wrong, err)
		}
		if what != "" {
			said = append(said, what)
		}
	}
	return said, wrong
}

// renew takes what the vault says now of a secret, and says what is new.
func (s *lentSecret) renew(v *vault.Vault) (string, error) {
	d, value, err := v.Get(s.Name)
	gone := bailey.KindOf(err) == bailey.NotFound || err == nil && d.ID != s.ID // another secret took its name
	switch {
	case gone && s.value.Len() == 0:
		return "", nil
	case gone:
		s.withdraw()
		return s.Name + " was withdrawn", nil
	case err != nil:
		return "", err
	case d.Revision == s.Revision:
		return "", nil
	}
	what := s.Name + " has other rules"
	if !value.Equal(s.value) {
		what = s.Name + " has a new value"
	}
	s.Definition, s.value = d, value
	if fits := s.check() == nil; !fits { // as it was it is not to be lent any more either
		s.withdraw()
		return s.Name + " was withdrawn, as its value cannot stand in the place of its rule", nil
	}
	return what, nil
}

// withdraw takes the value back. The proxy keeps what it lent out of answers.
func (s *lentSecret) withdraw() { s.value, s.Rules = seal.Secret{}, nil }

// check refuses a value that cannot stand where its rules have it.
func (s *lentSecret) check() error {
	held := s.held()
	return held.Check()
}

func (s *lentSecret) held() inject.Held {
	return inject.Held{ID: s.ID, Name: s.Name, Placeholder: s.placeholder, Value: s.value, Rules: s.Rules}
}
