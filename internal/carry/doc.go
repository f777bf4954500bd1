// Package carry moves work between a user's repository and the folders of a
// task, as data: a commit out of the repository into a bare shadow and a
// scratch clone, what an agent made of the clone into one commit of the shadow,
// and that commit back into the repository as a branch.
//
// Neither repository that somebody else may have written to is ever a git
// folder to git: not the agent's, and not the user's, whose configuration an
// agent may have changed before. Git gets a folder, a configuration and an
// environment of bailey's own, and of the user's the object store alone. The
// files of both work trees are read by this package, through
// internal/linux/beneath, and reach git as bytes in a pipe; so there is no
// hook, filter, attribute, include, alias or submodule for git to act on.
// References are read and written as the files that they are.
//
// The package confines nothing: internal/app/carrier plays it as a role that
// has no network, no capability and only the folders that one operation needs.
package carry
