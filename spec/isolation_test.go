package spec_test

import (
	"os"
	"strconv"
	"testing"
)

func pipeFiles() (r, w *os.File, err error) { return os.Pipe() }

// readProc reads a file of /proc/PID, or "" if the process is gone.
func readProc(t *testing.T, pid int, name string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	if err != nil && !os.IsNotExist(err) {
		t.Logf("read %s of process %d: %v", name, pid, err)
	}
	return string(b)
}
