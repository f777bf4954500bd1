// Package workspace decides which folder of the host a sandbox may write to,
// and guards the files in it through which the host's own git would run
// something later.
//
// Open checks the folder, reads its git layout without git, and yields plain
// data: mounts, private copies (bailey.Shadow, ADR 0005), and a Guard. After
// the run Revert removes what the guard forbids, Compare says what the sandbox
// did to its private copies, and NewGitDirs and HostRun name what the user
// should look at before using the tree.
//
// It runs as the caller, outside the sandbox. It starts no program, and writes
// nothing but the removals of Revert. Everything it reads in the workspace is
// hostile. It follows no link there, save that Open asks where the links lead
// that git would follow to a hook, and reads none that leads out.
//
// internal/app/run and the watchdog call it.
//
// # What the guard rests on
//
// The host's git takes commands from these places of a git folder: config and
// config.worktree (fsmonitor, hooksPath, filters, diff and merge drivers,
// aliases, sshCommand, pagers, editors), hooks, info/attributes (which applies
// filters), commondir and the pointer files of work trees and submodules
// (which name another git folder), and an unfinished rebase (its todo list has
// exec lines). The first four, and folders of hooks and included configuration
// that lie in the git folder under other names, are private copies in the
// sandbox, or are removed after it where they did not exist. Those that lie in
// the work tree are the sandbox's to change, and HostRun names them. The
// folders on the way to them (.git, modules, worktrees and each of their parts)
// are mounts of their own, because a folder that is not one could be renamed
// away and made anew.
//
// Git on the host also writes through symbolic links in a git folder (reflogs,
// COMMIT_EDITMSG, FETCH_HEAD, object folders), which a sandbox could aim at any
// file of the user's. Git never makes such links, so Revert removes those made
// during the run.
//
// Data acts too: git believes its index, which can name any path to write to
// and any repository to run git in (gitdata.ParseIndex), goes into each
// submodule, writes through symbolic refs, and reads legacy remotes and merge
// strategies. Revert sets those aside that git would not have made.
//
// What cannot wait for Revert is what a Tripwire is for.
//
// Objects are held to their names (Held.VerifyObjects), since git hashes none
// that it reads: what is forged, and other stores that objects/info/alternates
// names since, is set aside.
//
// Not guarded, because git runs nothing for them: what refs and true objects
// hold, shallow, grafts, replace refs. They are the sandbox's to change; what
// they can do is show the user another history.
package workspace
