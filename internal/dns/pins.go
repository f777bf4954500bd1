package dns

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds of Pins: an agent can ask for many names, but not make us remember
// more than this.
const (
	maxPinned   = 4096      // addresses
	maxPinNames = 8         // names an address
	pinLife     = time.Hour // programs keep addresses far beyond a TTL
)

// Pins remembers which names were answered with which address. It is what
// gives a name to a connection that says none, such as SSH. It is no
// permission: the name so found is decided and resolved again. The zero value
// is ready; it is safe for concurrent use.
type Pins struct {
	mu    sync.Mutex
	names map[netip.Addr][]pin // latest first

	standIns standIns
}

type pin struct {
	name  string
	until time.Time
}

// Add notes that name was answered with these addresses.
func (p *Pins) Add(name string, addrs []netip.Addr, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names == nil {
		p.names = map[netip.Addr][]pin{}
	}
	for _, a := range addrs {
		list := slices.DeleteFunc(p.names[a], func(o pin) bool { return o.name == name || now.After(o.until) })
		list = slices.Insert(list, 0, pin{name, now.Add(pinLife)})
		p.names[a] = list[:min(len(list), maxPinNames)]
	}
	p.shrink(now)
}

// Names returns the names that were answered with an address, latest first.
func (p *Pins) Names(a netip.Addr, now time.Time) []string {
	if name := p.standIns.name(a); name != "" {
		return []string{name}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, o := range p.names[a] {
		if !now.After(o.until) {
			out = append(out, o.name)
		}
	}
	return out
}

// shrink drops what is over, then whatever comes first, down to the bound.
func (p *Pins) shrink(now time.Time) {
	if len(p.names) <= maxPinned {
		return
	}
	for a, list := range p.names {
		if now.After(list[0].until) {
			delete(p.names, a)
		}
	}
	for a := range p.names {
		if len(p.names) <= maxPinned {
			return
		}
		delete(p.names, a)
	}
}
