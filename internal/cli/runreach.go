package cli

import (
	"github.com/alecthomas/kong"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
)

// reachFlags are those of `bailey run` about what is reached with the user's own
// rights, and how.
type reachFlags struct {
	Git []string `placeholder:"REPO[:rw]" sep:"none" help:"Let git in the sandbox fetch from this repository over SSH, such as git@example.com:owner/name.git, and with :rw push to it. Your key stays outside: no agent and no key file enters, and nothing else of the host can be asked for. Repeatable." group:"Network"`

	Learn learnFlag `placeholder:"FILE" help:"Stay confined, and propose at the end the smallest policy that lets through what the run asked for: it is printed, or with --learn=FILE written to a file that is not there yet. Nothing is let through meanwhile." group:"Network"`
}

// learnFlag is --learn, or --learn=FILE.
type learnFlag struct {
	on   bool
	file string
}

// IsBool has kong take the flag without a value.
func (*learnFlag) IsBool() bool { return true }

// Decode reads the flag (kong.MapperValue).
func (l *learnFlag) Decode(ctx *kong.DecodeContext) error {
	l.on = true
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	if err := ctx.Scan.PopValueInto("FILE", &l.file); err != nil {
		return err
	}
	if l.file == "" {
		return bailey.NewError(bailey.Invalid, "its value is empty", "give a file, or write --learn alone")
	}
	return nil
}

func (c reachFlags) reach() run.Reach {
	return run.Reach{Git: c.Git, Learn: c.Learn.on, LearnFile: asBytes(c.Learn.file)}
}
