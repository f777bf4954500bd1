package provider

import (
	"fmt"
	"net/http"
)

// Kind is what a scripted call does, whatever the agent's tool is named.
type Kind uint8

// The kinds of calls that every coding agent has a tool for.
const (
	KindShell Kind = iota + 1 // run a command line
	KindRead                  // read a file
	KindEdit                  // replace one text in a file
	KindWrite                 // make a file, or replace all of it
	KindPlan                  // say what is to be done; nothing, where the agent has no tool for it
)

// Call is one use of a tool, named by what it does.
type Call struct {
	Kind    Kind
	Command string   // of a Shell
	Items   []string // of a Plan; the first is under way
	Path    string   // of the others; absolute
	Old     string   // of an Edit: the line or lines to replace
	New     string   // of an Edit: what comes in their place; of a Write: all of the file
}

// Shell runs a command line.
func Shell(command string) Call { return Call{Kind: KindShell, Command: command} }

// Read reads a file.
func Read(path string) Call { return Call{Kind: KindRead, Path: path} }

// Edit replaces whole lines of a file. Some agents insist on a Read before.
func Edit(path, before, after string) Call {
	return Call{Kind: KindEdit, Path: path, Old: before, New: after}
}

// Write makes a file that does not exist yet.
func Write(path, content string) Call { return Call{Kind: KindWrite, Path: path, New: content} }

// Plan says what is to be done, with the first under way.
func Plan(items ...string) Call { return Call{Kind: KindPlan, Items: items} }

// Turn is one answer of the model: text, calls, or text and then calls. An
// agent's loop ends with the first turn without a call; the turns after it are
// for a talk that is resumed, which carries those words.
type Turn struct {
	Text   string
	Calls  []Call
	Usage  *Usage      // nil: 11 tokens in and 7 out
	Header http.Header // of the answer, such as a rate limit's
	Fault  Fault
}

// Say is a turn of text alone: the last of a script, or of a talk in it. No
// other turn of a script may have the same words.
func Say(text string) Turn { return Turn{Text: text} }

// Do is a turn of calls.
func Do(calls ...Call) Turn { return Turn{Calls: calls} }

// callID names a call in a way that its place in the script can be read from.
func callID(turn, call int) string { return fmt.Sprintf("call_t%dc%d", turn, call) }

// Result is what came back for one call of the script.
type Result struct {
	Turn, Call int
	Output     string // as the agent reported it to the model
	IsError    bool   // only where the dialect can say so
}
