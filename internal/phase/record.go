package phase

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/bailey-dev/bailey/internal/pricing"
)

// Stage is how far a unit has come. A phase that is taken up again goes on from
// the stage that was written last.
type Stage string

// The stages, in their order.
const (
	Pending    Stage = ""
	Working    Stage = "working"    // what is in the tree is known, an agent works or has
	Worked     Stage = "worked"     // the agent has ended by itself
	Committing Stage = "committing" // the validation has passed
	Committed  Stage = "committed"
	Done       Stage = "done"
	Failed     Stage = "failed" // every try of it
)

// Words of a record's end.
const (
	EndDone        = "done"
	EndFailed      = "failed"
	EndInterrupted = "interrupted"
	EndStopped     = "stopped"
	EndUntil       = "until"
	EndDeadline    = "deadline"
	EndBudget      = "budget"
	EndError       = "error"
)

// Record is what is known of a phase: of one plan in one workspace.
type Record struct {
	Key       string    `json:"key"`
	File      string    `json:"plan"` // absolute
	Workspace string    `json:"workspace"`
	Digest    string    `json:"digest"` // of the plan's file, as it was read
	Plan      *Plan     `json:"-"`
	Started   time.Time `json:"started"`
	Updated   time.Time `json:"updated"`
	End       string    `json:"end,omitempty"` // of the last run of it; empty while one goes on, or was killed
	Why       string    `json:"why,omitempty"` // in a sentence

	Validation string   `json:"validation"` // where and by what units are validated
	Warnings   []string `json:"warnings,omitempty"`
	Units      []*Work  `json:"units"`
}

// Work is what is known of one unit.
type Work struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Stage Stage  `json:"stage"`
	Try   int    `json:"try,omitempty"` // that goes on, or was the last

	Broken bool `json:"broken,omitempty"` // the try was interrupted

	Branch string `json:"branch,omitempty"`
	Head   string `json:"head,omitempty"` // of the branch before the unit
	Tip    string `json:"tip,omitempty"`  // of HEAD after the last try

	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Agent    float64   `json:"agent_seconds,omitempty"`      // of all tries
	Checking float64   `json:"validation_seconds,omitempty"` // likewise

	Exit       *int        `json:"agent_exit,omitempty"` // of the last try
	Validation *Validation `json:"validation,omitempty"` // likewise
	Retried    []string    `json:"retried,omitempty"`    // why, one line a try

	Commit string `json:"commit,omitempty"`
	Stat   string `json:"stat,omitempty"`
	Pushed string `json:"pushed,omitempty"` // to where
	Why    string `json:"why,omitempty"`    // it failed

	Tokens int64  `json:"tokens,omitempty"`
	Cost   string `json:"cost_usd,omitempty"`

	Runs    []Later  `json:"runs_later,omitempty"` // what of it would run something on this machine
	Refused []string `json:"refused,omitempty"`    // what of the work was not taken
	Left    []string `json:"left,omitempty"`       // in the work tree, uncommitted
	Kept    []string `json:"kept,omitempty"`       // references to commits that the agent made itself
	Notes   []string `json:"notes,omitempty"`
	Logs    []string `json:"logs,omitempty"` // files with what agents and validations printed
}

// Later is a file that would run something on the host later.
type Later struct {
	Path string `json:"path"`
	What string `json:"what"`
}

// Validation is how one ended. Its output is a stranger's.
type Validation struct {
	Exit   int    `json:"exit"`
	Output string `json:"output,omitempty"` // the last of it
	OnHost bool   `json:"on_host,omitempty"`
}

// Key names a phase: a plan in a workspace.
func Key(plan, workspace string) string {
	sum := sha256.Sum256([]byte(plan + "\x00" + workspace))
	const size = 8
	return hex.EncodeToString(sum[:size])
}

// Digest is that of a plan's file.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Take makes the record one of this plan: units that are known keep what is
// known of them, those that the plan itself says are done are so.
func (r *Record) Take(p *Plan) {
	known := map[string]*Work{}
	for _, w := range r.Units {
		known[w.ID] = w
	}
	r.Plan, r.Units = p, nil
	for i := range p.Units {
		u := &p.Units[i]
		w := known[u.ID]
		if w == nil {
			w = &Work{ID: u.ID, Title: u.Title}
			if u.Done {
				w.Stage = Done
			}
		}
		r.Units = append(r.Units, w)
	}
}

// Used is what all units have used of the model so far.
func (r *Record) Used() (tokens int64, money pricing.Money) {
	for _, w := range r.Units {
		tokens += w.Tokens
		if m, err := pricing.ParseUSD(w.Cost); err == nil && w.Cost != "" {
			money = money.Plus(m)
		}
	}
	return tokens, money
}

// Add adds tokens, and an amount of money that is written as a decimal number;
// empty is none.
func (w *Work) Add(tokens int64, usd string) {
	w.Tokens += tokens
	more, err := pricing.ParseUSD(usd)
	if err != nil || usd == "" {
		return
	}
	var was pricing.Money
	if w.Cost != "" {
		was, _ = pricing.ParseUSD(w.Cost) // it is of our own writing
	}
	w.Cost = was.Plus(more).Decimal()
}

// Left counts the units that are not done.
func (r *Record) Left() int {
	n := 0
	for _, w := range r.Units {
		if w.Stage != Done {
			n++
		}
	}
	return n
}
