package control

import (
	"context"
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

// refused reports whether nobody listens on the socket any more.
func refused(ctx context.Context, path string) bool {
	c, err := dial(ctx, path)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
