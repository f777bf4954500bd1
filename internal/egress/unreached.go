package egress

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey/internal/policy"
)

// unreachedError says, on one line, why no address of a host could be connected
// to.
type unreachedError struct {
	text   string
	causes []error
}

func (e *unreachedError) Error() string   { return e.text }
func (e *unreachedError) Unwrap() []error { return e.causes }

// unreached says why none of the addresses answered. A sandbox knows nothing
// of the machine that it is on: that is what is named where a service of it
// was asked for.
func (f *flow) unreached(errs []error) error {
	e := &unreachedError{text: listed(errs), causes: errs}
	refused := allRefused(errs)
	switch service := f.host == policy.ServiceHost; {
	case service && refused != nil:
		e.text = fmt.Sprintf("nobody listens on port %d of the machine that runs this sandbox: %s refused the connection", f.dest.Port(), strings.Join(refused, " and "))
	case service:
		e.text = fmt.Sprintf("port %d of the machine that runs this sandbox does not answer: %s", f.dest.Port(), e.text)
	case refused != nil:
		e.text = fmt.Sprintf("nobody listens on port %d there: %s refused the connection", f.dest.Port(), strings.Join(refused, " and "))
	}
	return e
}

// allRefused returns the addresses if each refused the connection, else nil.
func allRefused(errs []error) []string {
	var out []string
	for _, err := range errs {
		op, ok := errors.AsType[*net.OpError](err)
		if !ok || op.Addr == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		out = append(out, op.Addr.String())
	}
	return out
}

// listed is errors.Join on one line: what is said goes into lines.
func listed(errs []error) string {
	out := make([]string, 0, len(errs))
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return strings.Join(out, "; ")
}
