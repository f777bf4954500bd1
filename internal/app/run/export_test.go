package run

import (
	"io"
	"os"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/session"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// FollowEvents is followEvents.
func FollowEvents(r io.Reader, sink func(bailey.Event)) { followEvents(r, sink) }

// StartProxy starts a proxy, and returns why it cannot be told its settings.
func StartProxy(s gate.Settings, uid int) error {
	p, err := startProxy(s, uid, nil, func(bailey.Event) {})
	if err == nil {
		p.finish()
	}
	return err
}

// Hand is hand.
func Hand(to *os.File, s gate.Settings, patience time.Duration) error {
	return hand(to, "proxy", s, patience)
}

// NetEvents hands events to a run as its proxy does, and returns how many
// refusals it noted.
func NetEvents(w io.Writer, json bool, events ...bailey.Event) int {
	u := &running{plan: &plan{}, out: &output{w: w, json: json, now: time.Now}}
	for _, e := range events {
		u.netEvent(e)
	}
	return len(u.denied.list())
}

// EndedByProxy is what a run makes of the end of its proxy.
func EndedByProxy(w io.Writer, json bool, message string) (int, error) {
	u := &running{plan: &plan{}, out: &output{w: w, json: json, now: time.Now}}
	return u.judge(session.Result{}, &ending{reason: reasonProxy, message: message})
}

// ReadEnvFile is readEnvFile, of a caller who is in dir.
func ReadEnvFile(dir, path string, roots []string, env config.Lookup) ([]string, error) {
	return readEnvFile(Host{Dir: dir, Env: env}, path, roots)
}

// NetFooter is what a person reads at the end about what the network refused.
func NetFooter(w io.Writer, events ...bailey.Event) {
	u := &running{plan: &plan{}, out: &output{w: w, now: time.Now}}
	for _, e := range events {
		u.netEvent(e)
	}
	u.netFooter()
}

// NetLine is the header's line about the network.
func NetLine(p policy.Policy) string { return (&running{plan: &plan{policy: p}}).netLine() }

// ReportRuns is what a person reads at the end about what would run on the
// host.
func ReportRuns(w io.Writer, dir string, found []workspace.Finding) {
	u := &running{plan: &plan{workspace: dir}, out: &output{w: w, now: time.Now}}
	u.reportRuns(found)
}

// Filtered is filtered.
func Filtered(counts map[string]uint64) string { return filtered(counts) }

// Doubts is (*Request).doubts.
func Doubts(r Request, isModel func(string) bool) []string { return r.doubts(isModel) }

// Nested is nested, of a caller with that environment.
func Nested(env config.Lookup, err error) error { return nested(Host{Env: env}, err) }

// StartHint is startHint.
func StartHint(argv []string, code int, agents bool, models ...string) string {
	return startHint(argv, code, agents, models...)
}

// ProxyEnv is proxyEnv.
func ProxyEnv(hostname string) []string { return proxyEnv(hostname) }

// GiveWay is giveWay.
func GiveWay(env, given []string) []string { return giveWay(env, given) }

// Steer is a steer that waits as long for an answer, with the proxy's end of it
// and what its loss closes. tell asks it to follow a policy.
func Steer(patience time.Duration) (tell func(policy.Policy) error, lost <-chan struct{}, theirs *os.File, err error) {
	s, theirs, err := newSteer()
	if err != nil {
		return nil, nil, nil, err
	}
	s.patience = patience
	return func(p policy.Policy) error {
		_, err := s.tell(gate.Message{Policy: &p})
		return err
	}, s.lost, theirs, nil
}
