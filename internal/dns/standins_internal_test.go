package dns

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestStandIns_AreBoundedAndStable(t *testing.T) {
	t.Parallel()
	var s standIns
	first := s.of("first.test")
	used := map[netip.Addr]string{first: "first.test"}
	const names = 3 * maxStandIns
	for i := range names {
		name := fmt.Sprintf("n%d.test", i)
		a := s.of(name)
		if old := used[a]; old != "" {
			t.Fatalf("%s was given to %s and to %s", a, old, name)
		}
		used[a] = name
		if !standInRange().Contains(a) || s.name(a) != name {
			t.Fatalf("%s stands for %q, want %s", a, s.name(a), name)
		}
		if s.of("first.test") != first { // in use: it stays
			t.Fatalf("after %d names the first has moved", i)
		}
	}
	kept := 0
	for a, name := range used {
		switch s.name(a) {
		case name:
			kept++
		case "":
		default:
			t.Errorf("%s stands for %s, want %s or nothing", a, s.name(a), name)
		}
	}
	if kept != maxStandIns || s.order.Len() != maxStandIns || len(s.byName) != maxStandIns || len(s.byAddr) != maxStandIns {
		t.Errorf("%d of %d names are kept, want %d", kept, names, maxStandIns)
	}
}

func TestStandIns_GoRound(t *testing.T) {
	t.Parallel()
	s := standIns{last: netip.MustParseAddr("198.19.255.254")}
	for _, c := range []struct{ name, addr string }{{"a", "198.19.255.255"}, {"b", "198.18.0.1"}, {"c", "198.18.0.2"}} {
		if got := s.of(c.name); got.String() != c.addr {
			t.Errorf("%s: %s, want %s", c.name, got, c.addr)
		}
	}
	s.last = netip.MustParseAddr("198.19.255.254")
	if got := s.of("d"); got.String() != "198.18.0.3" { // those in use are passed over
		t.Errorf("d: %s", got)
	}
}
