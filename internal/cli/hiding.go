package cli

import "github.com/bailey-dev/bailey/internal/app/run"

// hidingFlags are the flags of `bailey run` about files that are not seen.
type hidingFlags struct {
	Hide []string `placeholder:"PATTERN" sep:"none" help:"Hide these files or folders of the workspace too, beside those that usually hold secrets (.env, private keys, logins of tools): NAME in every folder, DIR/NAME, or /DIR/NAME from the workspace's folder, with * and ?. Holds for files made later. Repeatable." group:"Workspace"`
	Show []string `placeholder:"PATTERN" sep:"none" help:"Show these files of the workspace although they are hidden; '*' hides none. Repeatable." group:"Workspace"`
}

func (f hidingFlags) request() run.Hiding {
	return run.Hiding{Hide: each(f.Hide, asBytes), Show: each(f.Show, asBytes)}
}
