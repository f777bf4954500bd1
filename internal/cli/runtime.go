package cli

// runtimeFlags choose whose kernel a sandbox's system calls reach. No variable
// and no file does: each run says so itself.
type runtimeFlags struct {
	Runtime text `placeholder:"NAME" help:"What carries out the sandbox's system calls: gvisor, its kernel in user space; or native, this machine's kernel, which is faster with many files, and shared: a hole in it is a hole in the sandbox (docs/native.md). Default: gvisor." group:"Workspace"`
}
