package memfd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// sealed is what keeps a file in memory as it is.
const sealed = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK

// Text returns a file in memory that holds the data and that nobody can change
// any more, for a reader in another process. It closes on exec.
func Text(name string, data []byte) (*os.File, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 the flag is unknown
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealed|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}

// ErrNotSealed is why a file is not read that was said to be one of Text's:
// reading another could wait for ever, or see it change.
var ErrNotSealed = errors.New("no sealed file in memory")

// ReadText reads a file of Text's that came from another process: it is in
// memory, sealed, and at most limit bytes long, whoever made it.
func ReadText(f *os.File, limit int64) ([]byte, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("look at a file in memory: %w", err)
	}
	seals := 0
	var failed error
	err = conn.Control(func(fd uintptr) { seals, failed = unix.FcntlInt(fd, unix.F_GET_SEALS, 0) })
	if err := errors.Join(err, failed); err != nil || seals&sealed != sealed {
		return nil, errors.Join(ErrNotSealed, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at a file in memory: %w", err)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("a file in memory has %d bytes, and %d are allowed", info.Size(), limit)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, info.Size()), data); err != nil {
		return nil, fmt.Errorf("read a file in memory: %w", err)
	}
	return data, nil
}
