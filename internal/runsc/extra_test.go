package runsc_test

import (
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/runsc"
)

func TestCheckArg(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--strace": "--strace", "strace": "--strace", "--strace-syscalls=openat,read": "--strace-syscalls=openat,read", "dcache=-1": "--dcache=-1",
	} {
		if got, err := runsc.CheckArg(arg); err != nil || got != want {
			t.Errorf("%q: %q, %v", arg, got, err)
		}
	}
	for _, arg := range []string{
		"", "-", "run", "--network=host", "network", "--host-uds=all", "--directfs=false", "--platform=kvm", "--unknown", "--strace=", "--strace=a b", "--strace=a\x00--network=host", "--strace\x00=x", "--dcache=$(x)", "--strace=/etc",
	} {
		got, err := runsc.CheckArg(arg)
		if bailey.KindOf(err) != bailey.Invalid || got != "" || !strings.Contains(err.Error(), "--runtime-arg") {
			t.Errorf("%q: %q, %v", arg, got, err)
		}
	}
}
