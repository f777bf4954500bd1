// Package inotify tells of names that appear in a folder, and of files in it
// that are written to (inotify(7)).
//
// It never reads a file, follows no link, and has no state but the kernel's.
// internal/workspace uses it for git folders while a sandbox runs.
package inotify
