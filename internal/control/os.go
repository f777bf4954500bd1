package control

import (
	"errors"
	"os"
	"syscall"
)

func ownerOf(fi os.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

func isInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
