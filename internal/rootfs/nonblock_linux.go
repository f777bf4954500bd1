package rootfs

import "syscall"

// openNonblock keeps an open of a pipe from waiting for its other end.
const openNonblock = syscall.O_NONBLOCK | syscall.O_CLOEXEC
