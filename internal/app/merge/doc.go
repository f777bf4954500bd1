// Package merge is what a person does with the branch of a task in their own
// repository: see what is at stake, and take it in.
//
// The branch's tree is an agent's work, and attributes in it choose among the
// programs that the user's git is set up with. So git is run with hooks,
// filters, merge drivers, external diffs, file system monitors and everything
// that reaches the network switched off, whatever the repository, the user or
// the environment say: a merge changes files and refs and starts nothing. What
// was written is all in the tree then, as the agent wrote it.
package merge
