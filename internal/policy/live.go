package policy

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/bailey-dev/bailey"
)

// Live is the policy of a running sandbox, which can be changed under it. Each
// question is answered by one policy, whole: that of the moment. It is safe
// for concurrent use.
type Live struct{ now atomic.Pointer[Index] }

// NewLive begins with a policy, whose lists must not change any more.
func NewLive(p Policy) *Live {
	l := &Live{}
	l.now.Store(NewIndex(p))
	return l
}

// Adopt puts a policy in place of the one before, which it returns.
func (l *Live) Adopt(p Policy) (before Policy) { return l.now.Swap(NewIndex(p)).policy }

// Now returns what holds, for several questions that belong together.
func (l *Live) Now() *Index { return l.now.Load() }

// Policy returns what holds.
func (l *Live) Policy() Policy { return l.Now().policy }

// Decide is Index.Decide.
func (l *Live) Decide(r Request) bailey.Decision { return l.Now().Decide(r) }

// DecideAddr is Index.DecideAddr.
func (l *Live) DecideAddr(r Request, d bailey.Decision, a netip.Addr) bailey.Decision {
	return l.Now().DecideAddr(r, d, a)
}

// DecideHostAddress is Index.DecideHostAddress.
func (l *Live) DecideHostAddress(r Request, d bailey.Decision, a netip.Addr, definesName bool) bailey.Decision {
	return l.Now().DecideHostAddress(r, d, a, definesName)
}

// OfUser is Index.OfUser.
func (l *Live) OfUser(r Request) bool { return l.Now().OfUser(r) }

// Opens is Index.Opens.
func (l *Live) Opens(r Request) bool { return l.Now().Opens(r) }

// ByRequest is Index.ByRequest.
func (l *Live) ByRequest(r Request) bool { return l.Now().ByRequest(r) }

// Pins is Index.Pins.
func (l *Live) Pins(r Request) bool { return l.Now().Pins(r) }

// OverSSH is Index.OverSSH.
func (l *Live) OverSSH(host string, port uint16) bool { return l.Now().OverSSH(host, port) }

// NewDenials returns the deny rules that a policy did not have before.
func (p Policy) NewDenials(before Policy) []Rule {
	type said struct {
		text   string
		fenced bool
	}
	known := make(map[said]bool, len(before.Deny)) // there can be thousands
	for _, r := range before.Deny {
		known[said{r.Text(), r.Fenced}] = true
	}
	return slices.DeleteFunc(slices.Clone(p.Deny), func(r Rule) bool { return known[said{r.Text(), r.Fenced}] })
}
