package proxy

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// hostAddresses knows which addresses belong to this machine: those of its
// links, and whatever else its kernel delivers to itself. They change while a
// laptop moves, so the list is read again when it is old.
type hostAddresses struct {
	now func() time.Time

	routes routes

	mu   sync.Mutex
	read time.Time
	own  map[netip.Addr]bool // nil: could not be read
}

const hostAddressesAge = 2 * time.Second

// has reports whether an address is this machine's. If that cannot be found
// out every address is: the caller refuses those.
func (h *hostAddresses) has(a netip.Addr) bool {
	if h.onLink(a) {
		return true
	}
	toSelf, err := h.routes.toSelf(a)
	return toSelf || err != nil
}

// onLink reports whether an address is one of a link's, also of a link that
// is down or in a routing table of its own.
func (h *hostAddresses) onLink(a netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.now(); h.own == nil || now.Sub(h.read) > hostAddressesAge {
		h.read, h.own = now, ownAddresses()
	}
	return h.own == nil || h.own[a.Unmap()]
}

func ownAddresses() map[netip.Addr]bool {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	own := map[netip.Addr]bool{}
	for _, entry := range list {
		if n, ok := entry.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(n.IP); ok {
				own[a.Unmap()] = true
			}
		}
	}
	return own
}
