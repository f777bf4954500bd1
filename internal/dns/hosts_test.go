package dns_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/bailey-dev/bailey/internal/dns"
)

func TestHostsFile_Defines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hosts")
	const text = "# 11.0.0.1 comment.test\n\n11.0.0.1\tHost.test  other.test. # tail.test\n11.0.0.10 allow.test\nnonsense host2.test\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	own := netip.MustParseAddr("11.0.0.1")
	for name, want := range map[string]bool{
		"host.test": true, "other.test": true,
		"comment.test": false, "tail.test": false, "allow.test": false, "host2.test": false, "11.0.0.1": false, "": false,
	} {
		if got := dns.HostsFile(path).Defines(name, own); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	if dns.HostsFile(path+"-not").Defines("host.test", own) {
		t.Error("a file that is not there defines a name")
	}
}
