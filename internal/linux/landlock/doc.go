// Package landlock confines the calling process, all its threads and all its
// children, to a few readable files and no way to bind a port, reach an
// abstract socket or signal anybody outside (Landlock, linux/landlock.h).
//
// It only ever takes away. Where the kernel has an older Landlock it applies
// what that one can; where it has none, Level is 0 and the caller says so.
// Its callers are roles under internal/app.
package landlock
