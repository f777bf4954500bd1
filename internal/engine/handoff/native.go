package handoff

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Descriptors that the native role is born with, after the standard three: the
// first two are where the sandbox's first process looks for them (wire.FD,
// wire.ModelFD), which that role becomes.
const (
	NativeWireFD   = 3
	NativeModelFD  = 4 // the null device where there is no gateway
	NativeOrderFD  = 5 // a Native
	NativeReportFD = 6 // a Report if it fails; it ends when the first process runs
)

// Native is what the helper tells the role that becomes the first process of a
// sandbox without gVisor. Paths are of the helper's file system.
type Native struct {
	Root    string   `json:"root"`    // a mount: the sandbox's file system, but for /proc
	Empty   string   `json:"empty"`   // a file without contents
	Void    string   `json:"void"`    // a folder without contents
	BootID  string   `json:"boot_id"` // a file with a boot id of the sandbox's own
	Memory  []string `json:"memory"`  // inside: memory file systems
	Dirs    []string `json:"dirs"`    // inside: what is written below them
	Files   []string `json:"files"`   // inside: what is written itself
	Args    []string `json:"args"`    // of the first process
	Env     []string `json:"env"`     // likewise
	NProc   int64    `json:"nproc"`   // RLIMIT_NPROC
	NoFile  int64    `json:"nofile"`  // RLIMIT_NOFILE
	FSize   int64    `json:"fsize"`   // RLIMIT_FSIZE; 0 leaves it
	Gateway bool     `json:"gateway"` // NativeModelFD is a wire to the model gateway
	Program string   `json:"program"` // inside
}

// ReadNative reads what the helper has written.
func ReadNative(from *os.File) (*Native, error) {
	b, err := io.ReadAll(io.LimitReader(from, maxSettings))
	if err != nil {
		return nil, fmt.Errorf("read order: %w", err)
	}
	var n Native
	if err := json.Unmarshal(b, &n); err != nil {
		return nil, fmt.Errorf("decode order: %w", err)
	}
	return &n, nil
}
