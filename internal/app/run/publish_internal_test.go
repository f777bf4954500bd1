package run

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey"
)

// TestUnbound_SaysWhatIsInTheWay: another program, or the rule about low ports.
func TestUnbound_SaysWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	for why, want := range map[error]string{
		syscall.EADDRINUSE: "end what has it, or publish another: --publish 10080:80",
		syscall.EACCES:     "net.ipv4.ip_unprivileged_port_start says otherwise; publish another: --publish 10080:80",
	} {
		err := (&published{host: 80, port: 80}).unbound("127.0.0.1", why)
		e, ok := errors.AsType[*bailey.Error](err)
		if !ok {
			t.Fatal(err)
		}
		if hint := e.Hint; !strings.HasSuffix(hint, want) || strings.Contains(hint, "end what has it") != errors.Is(why, syscall.EADDRINUSE) || !strings.Contains(err.Error(), why.Error()) {
			t.Errorf("%v: %v, hint: %s", why, err, hint)
		}
	}
}
