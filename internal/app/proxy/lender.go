package proxy

import (
	"fmt"
	"net/http"

	"github.com/bailey-dev/bailey/internal/egress"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/inject"
)

// lender is inject.Lender as egress wants it.
type lender struct{ inject.Lender }

// newLender holds the secrets that a sandbox begins with, or is nil where there
// are none: none are added later.
func newLender(secrets []gate.Secret) (*lender, error) {
	if len(secrets) == 0 {
		return nil, nil //nolint:nilnil // nothing is lent
	}
	l := &lender{}
	if _, err := l.adopt(secrets); err != nil {
		return nil, fmt.Errorf("take secrets: %w", err)
	}
	return l, nil
}

// adopt puts secrets in place of those before, and returns the ids of those
// that are others now.
func (l *lender) adopt(secrets []gate.Secret) ([]string, error) {
	held := make([]inject.Held, len(secrets))
	for i, s := range secrets {
		held[i] = s.Held()
	}
	changed, err := l.Adopt(held)
	ids := make([]string, len(changed))
	for i, id := range changed {
		ids[i] = string(id)
	}
	return ids, err
}

// Lend is egress.Lender's.
func (l *lender) Lend(r *http.Request, host string, port uint16, secure bool) (egress.Loan, error) {
	got, err := l.Lender.Lend(r, inject.Target{Host: host, Port: port, Secure: secure})
	if err != nil {
		return nil, err
	}
	return loan{got}, nil
}

// loan is inject.Loan as egress wants it.
type loan struct{ *inject.Loan }

// IDs is egress.Loan's.
func (l loan) IDs() []string {
	var out []string
	for _, id := range l.Loan.IDs() {
		out = append(out, string(id))
	}
	return out
}

// Uses is egress.Loan's.
func (l loan) Uses(status int) []egress.Use {
	var out []egress.Use
	for _, u := range l.Loan.Uses(status) {
		out = append(out, egress.Use{ID: string(u.ID), Name: u.Name, Class: u.Class})
	}
	return out
}
