package cli

// netCommand is the group of commands about the decisions of the network.
type netCommand struct {
	Log netLogCommand `cmd:"" help:"Print what the network of your sandboxes decided."`
	Why netWhyCommand `cmd:"" help:"Say what would be decided about a host, and what would allow it."`
}
