// Package delegate is delegation itself (task.Service): it takes tasks, has
// them wait for a place, drives each through its life by the closed list of
// operations that launcher.Engine is, and keeps what came of it.
//
// Whatever an agent wrote is hostile here: its event stream, its report, its
// diff and the names in them are bounded, made printable, and handed out only
// inside marks that they cannot forge (Fence). Nothing that an agent says
// makes a task more of a success, gives it more time or money, or names a
// path. What a task used is counted from bailey's own events.
//
// It opens no file but those of its own folder, starts no process and never
// reaches a repository. internal/app/control fills it.
package delegate
