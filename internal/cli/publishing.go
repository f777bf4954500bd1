package cli

// publishFlags are the flags of `bailey run` about ports of this machine that
// lead inside.
type publishFlags struct {
	Publish []string `placeholder:"[HOSTPORT:]PORT" sep:"none" help:"Have this port of this machine's loopback (127.0.0.1 and ::1, nothing else) lead to the same port inside, or to PORT. Repeatable." group:"Network"`

	OpenBrowser bool `help:"Lend your browser: an https address that a program inside wants opened is shown and opened there; where a login answers to this machine's loopback, its port is bound for that one answer and passes it inside." group:"Network"`
}
