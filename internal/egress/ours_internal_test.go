package egress

import (
	"net/netip"
	"testing"
	"time"
)

// Whether an address is this machine's is asked once for the requests of a
// while, and again after it: one that has become the machine's is seen then.
func TestExchange_IsOursIsAskedAgain(t *testing.T) {
	t.Parallel()
	now, asked := time.Unix(1000, 0), 0
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	ours := map[netip.Addr]bool{b: true}
	p := &Proxy{cfg: Config{
		Now:         func() time.Time { return now },
		HostAddress: func(a netip.Addr) bool { asked++; return ours[a] },
	}}
	e := &exchange{f: &flow{p: p}}
	for range 3 {
		if e.isOurs(a) || !e.isOurs(b) {
			t.Fatal("an address was taken for another one")
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times for two addresses", asked)
	}
	ours[a] = true
	now = now.Add(oursAge)
	if e.isOurs(a) {
		t.Error("asked again before it was time")
	}
	now = now.Add(1)
	if !e.isOurs(a) || !e.isOurs(b) || asked != 4 {
		t.Errorf("an address that became this machine's was not seen; asked %d times", asked)
	}
}
