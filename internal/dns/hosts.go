package dns

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"strings"
)

// maxHosts bounds what is read of a hosts file, in bytes.
const maxHosts = 1 << 20

// HostsFile is the path of a hosts file (hosts(5)): what a machine says of
// names by itself, which nobody else can change.
type HostsFile string

// Defines reports whether the file gives a normalised name an address. What
// cannot be read defines nothing.
func (h HostsFile) Defines(name string, a netip.Addr) bool {
	f, err := os.Open(string(h))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return definedIn(io.LimitReader(f, maxHosts), name, a)
}

func definedIn(r io.Reader, name string, a netip.Addr) bool {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if at, err := netip.ParseAddr(fields[0]); err != nil || at.Unmap() != a {
			continue
		}
		for _, f := range fields[1:] {
			if strings.EqualFold(strings.TrimSuffix(f, "."), name) {
				return true
			}
		}
	}
	return false
}
