package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Sysctl is one setting below /proc/sys/net.
type Sysctl struct {
	Key      string // with slashes: "ipv4/ip_forward"
	Value    string
	Optional bool // absence is no error: the kernel was built without the feature
}

// SetSysctls writes the settings, in order, in the calling thread's network
// namespace. /proc/sys must be mounted for writing.
func SetSysctls(list []Sysctl) error {
	for _, s := range list {
		err := writeSysctl("/proc/sys/net/"+s.Key, s.Value)
		if s.Optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("set sysctl net/%s=%s: %w", s.Key, s.Value, err)
		}
	}
	return nil
}

func writeSysctl(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
