package egress

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// TestUnreached_SaysWhoDidNotAnswer: in one line, with the port, and of the
// machine where it was a service of that.
func TestUnreached_SaysWhoDidNotAnswer(t *testing.T) {
	t.Parallel()
	dial := func(to string, err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(to)), Err: err}
	}
	four, six := dial("127.0.0.1:4545", syscall.ECONNREFUSED), dial("[::1]:4545", syscall.ECONNREFUSED)
	for name, c := range map[string]struct {
		host string
		errs []error
		want string
	}{
		"a service": {policy.ServiceHost, []error{four, six}, "nobody listens on port 4545 of the machine that runs this sandbox: 127.0.0.1:4545 and [::1]:4545 refused the connection"},
		"a slow one": {policy.ServiceHost, []error{dial("127.0.0.1:4545", syscall.ETIMEDOUT), six}, "port 4545 of the machine that runs this sandbox does not answer: " +
			"dial tcp 127.0.0.1:4545: connection timed out; dial tcp [::1]:4545: connection refused"},
		"a host":        {"a.test", []error{dial("11.0.0.1:4545", syscall.ECONNREFUSED)}, "nobody listens on port 4545 there: 11.0.0.1:4545 refused the connection"},
		"another fault": {"a.test", []error{errors.New("one"), errors.New("two")}, "one; two"},
	} {
		f := &flow{host: c.host, dest: netip.MustParseAddrPort("192.0.0.2:4545")}
		err := f.unreached(c.errs)
		if err.Error() != c.want || !errors.Is(err, c.errs[0]) {
			t.Errorf("%s: %q, want %q", name, err, c.want)
		}
		if said := (*lent)(nil).said(err); said != c.want {
			t.Errorf("%s: passed on as %q", name, said)
		}
	}
}

func TestExplanation_SaysWhatWasNotReached(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]bailey.Decision{
		"bailey could not pass on GET x: it did not answer (upstream).\nwhy\n":                {Verdict: bailey.Allow, Rule: "", Reason: policy.ReasonUpstream, Detail: "why"},
		"bailey could not pass on GET x: its name could not be resolved (unresolved).\nwhy\n": {Verdict: bailey.Deny, Rule: "", Reason: policy.ReasonUnresolved, Detail: "why"},
		"bailey refused GET x: not-allowed.\nwhy\n":                                           {Verdict: bailey.Deny, Rule: "", Reason: policy.ReasonNotAllowed, Detail: "why"},
	} {
		if got := explanation("GET x", d); got != want || strings.Contains(got, `\n`) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
