// Package gitdata reads git's files as data: configuration files, and the
// layout of a work tree's git folders (a plain repository, a linked work
// tree, a submodule), and what an index could do to the user's git.
//
// It never starts git, never follows an include, runs no hook, filter or
// alias, and never writes. Every file of a repository is read through internal/linux/beneath:
// no symbolic link is followed, only regular files are opened, and each has a
// size limit, because the bytes may have been written by an agent.
//
// internal/workspace uses it to decide what a sandbox may see of a
// repository, internal/app/run to learn the caller's name for commits.
package gitdata
