package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/inject"
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
	former      []seal.Secret
	placeholder string
	variable    string
}

// mostFormer is how many values before rotations are kept out of answers.
const mostFormer = 16

// lend reads the secrets that a run asks for, and makes their placeholders. The
// vault stays open, since what opened it may not be there a second time; it is
// nil where there are none.
func lend(h Host, r *Request) ([]lentSecret, *vault.Vault, error) {
	if len(r.Secrets) == 0 {
		return nil, nil, nil
	}
	// From here on this process holds values: nobody looks into it, and it
	// leaves no core file.
	if err := errors.Join(harden.NoCore(), harden.Undumpable()); err != nil {
		return nil, nil, err
	}
	v, err := vault.Open(h.Vault())
	if err != nil {
		return nil, nil, err
	}
	out, err := lendFrom(v, r)
	return out, v, err
}

func lendFrom(v *vault.Vault, r *Request) ([]lentSecret, error) {
	var out []lentSecret
	for _, spec := range r.Secrets {
		name, variable, given := strings.Cut(spec, "=")
		d, value, err := v.Get(name)
		if err != nil {
			return nil, err
		}
		if d.Gateway {
			return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("--secret %s: it is for the model gateway alone", name), "bailey secret set makes one for a host")
		}
		if !given {
			variable = d.Var
		}
		if !validVariable(variable) {
			return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("--secret %s: %q is not a variable's name", name, variable), "use --secret NAME=VAR")
		}
		if i := slices.IndexFunc(out, func(o lentSecret) bool { return o.variable == variable || o.ID == d.ID }); i >= 0 {
			return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("--secret %s: --secret %s is the same secret or has the same variable %s", name, out[i].Name, out[i].variable), "each has one variable of its own: --secret NAME=VAR")
		}
		out = append(out, lentSecret{Definition: d, value: value, placeholder: secret.NewPlaceholder(value.Reveal(), d.Keep), variable: variable})
		for _, rule := range d.Rules {
			for _, host := range rule.Hosts {
				r.lent = append(r.lent, settings.SecretHost{Secret: d.Name, Rule: policy.Rule{
					Host: host.Name, Wildcard: host.Wildcard, Port: host.Port, Narrow: &policy.Narrow{Inspect: true},
				}})
			}
		}
	}
	return out, nil
}

func validVariable(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
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

// forProxy is what the proxy is told of secrets.
func forProxy(lent []lentSecret) []gate.Secret {
	out := make([]gate.Secret, len(lent))
	for i, s := range lent {
		out[i] = gate.Reveal(inject.Held{
			ID: s.ID, Name: s.Name, Placeholder: s.placeholder, Value: s.value, Former: s.former, Rules: s.Rules,
		})
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
		next, err := v.Reopen()
		if err == nil {
			v = next
			err = r.renewSecrets(v)
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

// renewSecrets has the proxy hold the secrets as they are now.
func (r *ruling) renewSecrets(v *vault.Vault) error {
	lent := slices.Clone(r.u.plan.secrets)
	var said []string
	for i := range lent {
		what, err := lent[i].renew(v)
		if err != nil {
			return err
		}
		if what != "" {
			said = append(said, what)
		}
	}
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
		cut = fmt.Sprintf(" (%d open connections were cut)", reply.Cut)
	}
	line := strings.Join(said, ", ") + cut
	r.u.out.event(bailey.Event{Type: bailey.EventSecretChanged, Message: line})
	r.u.out.say("secrets: %s", line)
	return nil
}

// renew takes what the vault says now of a secret, and says what is new.
func (s *lentSecret) renew(v *vault.Vault) (string, error) {
	d, value, err := v.Get(s.Name)
	gone := bailey.KindOf(err) == bailey.NotFound || err == nil && d.ID != s.ID // another secret took its name
	switch {
	case gone && s.value.Len() == 0:
		return "", nil
	case gone:
		s.former = append(slices.Clone(s.former), s.value)
		s.value, s.Rules = seal.Secret{}, nil
		return s.Name + " was withdrawn", nil
	case err != nil:
		return "", err
	case d.Revision == s.Revision:
		return "", nil
	}
	what := s.Name + " has other rules"
	if !value.Equal(s.value) {
		what = s.Name + " has a new value"
		s.former = append(slices.Clone(s.former), s.value)
		s.former = s.former[max(0, len(s.former)-mostFormer):]
	}
	s.Definition, s.value = d, value
	return what, nil
}
