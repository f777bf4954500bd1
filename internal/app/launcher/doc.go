// Package launcher is the role that holds the power of delegation: it makes
// the folders of tasks, starts the processes that work on them, keeps their
// deadlines, and ends them. It has the user's own rights, or root's, and
// implements the closed list of internal/launcher for the role that people,
// planners and agents' output meet.
//
// It parses nothing that an agent wrote: output is copied from a pipe to a file
// of bounded size, and what a repository or a result holds is read by helpers
// that live for one operation. It speaks no HTTP, reads no configuration file
// and holds no key; a test holds its package tree to that. Paths are derived
// from ids, and no component of them is followed if it is a link.
//
// Its ledger, a file in each task's folder, is written before anything is made:
// whatever is killed, the next start knows what may be there (ADR 0015).
package launcher
