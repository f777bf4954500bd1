package dns

import (
	"container/list"
	"net/netip"
	"sync"
)

// maxStandIns bounds the names that have a stand-in at one time.
const maxStandIns = 4096

// standInRange is where stand-ins come from: addresses for benchmarks (RFC
// 2544), which are on no network and which no rule can open (policy.Classify).
// One that leaks into a connection by number is refused like any of them.
func standInRange() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, 0}), 15)
}

// standIns gives names addresses that stand for them inside the sandbox alone:
// a program can ask for a name without the question leaving, and the name is
// looked up once a connection comes for it. A name keeps its address while it
// is among the last maxStandIns that were asked for, and an address has one
// name. The zero value is ready; it is safe for concurrent use.
type standIns struct {
	mu     sync.Mutex
	byName map[string]*list.Element
	byAddr map[netip.Addr]*list.Element
	order  list.List // of standIn, latest first
	last   netip.Addr
}

type standIn struct {
	name string
	addr netip.Addr
}

// at returns what stands at a place of the order.
func at(e *list.Element) standIn {
	v, _ := e.Value.(standIn) // nothing else is put in
	return v
}

// of returns the address that stands for a name.
func (s *standIns) of(name string) netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byName[name]; e != nil {
		s.order.MoveToFront(e)
		return at(e).addr
	}
	if s.byName == nil {
		s.byName, s.byAddr = map[string]*list.Element{}, map[netip.Addr]*list.Element{}
	}
	if s.order.Len() >= maxStandIns {
		s.drop(s.order.Back())
	}
	e := s.order.PushFront(standIn{name, s.next()})
	s.byName[name], s.byAddr[s.last] = e, e
	return s.last
}

// name returns the name that an address stands for, or "".
func (s *standIns) name(a netip.Addr) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byAddr[a]; e != nil {
		return at(e).name
	}
	return ""
}

// next goes through the range from its second address on, over and over: an
// address that lost its name comes again as late as can be.
func (s *standIns) next() netip.Addr {
	for {
		if s.last = s.last.Next(); !standInRange().Contains(s.last) {
			s.last = standInRange().Addr().Next()
		}
		if s.byAddr[s.last] == nil {
			return s.last
		}
	}
}

func (s *standIns) drop(e *list.Element) {
	s.order.Remove(e)
	gone := at(e)
	delete(s.byName, gone.name)
	delete(s.byAddr, gone.addr)
}
