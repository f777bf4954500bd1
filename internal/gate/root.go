package gate

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bailey-dev/bailey/internal/pki"
	"github.com/bailey-dev/bailey/internal/policy"
)

// NewRoot makes the root with which TLS of a sandbox is opened, for the hosts
// that a policy wants opened and no others. It is nil if there are none. A life
// of 0 is the longest.
func NewRoot(sandbox string, p policy.Policy, now time.Time, life time.Duration) (*pki.Root, error) {
	rules := p.Opened()
	if len(rules) == 0 {
		return nil, nil //nolint:nilnil // nothing is to be opened
	}
	var names []string
	var addrs []netip.Addr
	for _, r := range rules {
		if r.Addr.IsValid() {
			addrs = append(addrs, r.Addr)
		} else {
			names = append(names, r.Host) // of a wildcard too: what it names is below
		}
	}
	slices.Sort(names)
	slices.SortFunc(addrs, netip.Addr.Compare)
	if life <= 0 {
		life = pki.MaxLife
	}
	return pki.NewRoot(sandbox, pki.NewScope(slices.Compact(names), slices.Compact(addrs)), now, life)
}
