package bailey

// Exit codes of the command line, as docker's where docker has one.
const (
	ExitDeadline    = 124 // the --timeout passed
	ExitBailey      = 125 // bailey itself failed, or its input was wrong
	ExitCannotRun   = 126 // the command was found and could not be executed
	ExitNotFound    = 127 // the command was not found
	ExitSignalBase  = 128 // plus the signal's number
	ExitOutOfMemory = 137 // the memory limit killed it (128 + SIGKILL)
)
