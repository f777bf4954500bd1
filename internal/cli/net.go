package cli

// netCommand is the group of commands about the decisions of the network.
type netCommand struct {
	Log     netLogCommand     `cmd:"" help:"Print what the network of your sandboxes decided."`
	Pending netPendingCommand `cmd:"" help:"List the hosts that wait for your answer."`
	Allow   netAllowCommand   `cmd:"" help:"Let a host through in a running sandbox."`
	Deny    netDenyCommand    `cmd:"" help:"Refuse a host in a running sandbox, and cut what is open to it."`
	Top     netTopCommand     `cmd:"" help:"Show what running sandboxes reach and are refused, live."`
	Why     netWhyCommand     `cmd:"" help:"Say what would be decided about a host, and what would allow it."`
}
