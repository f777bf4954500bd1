package autophase

import "time"

// A unit's descriptors, beside the streams of its command.
const (
	OrderFD  = 3 // an Order as one JSON document, and the end of the file
	EventsFD = 4 // events as JSON lines (docs/events.md)
	EndFD    = 5 // an End as one JSON document, when nothing of the sandbox is left
)

// MaxOrder bounds the document that a unit reads.
const MaxOrder = 4 << 20

// MostOutput bounds each stream of a command. What comes behind it is left out.
const MostOutput = 64 << 20

// Order says what one sandbox is for.
type Order struct {
	Words    []string      `json:"words"` // of `bailey run`, as they were given
	Prompt   string        `json:"prompt,omitempty"`
	Model    string        `json:"model,omitempty"` // where the words name none
	MaxTurns int           `json:"max_turns,omitempty"`
	Budget   []string      `json:"budget,omitempty"`  // in the place of what the words say
	Timeout  time.Duration `json:"timeout,omitempty"` // beside what the words say

	Look bool `json:"look,omitempty"` // no sandbox is made: could one be?

	Check   string `json:"check,omitempty"`   // a line for a shell: it is a validation
	Network bool   `json:"network,omitempty"` // of a validation: that of the words
}

// End is how a sandbox ended. Without one its process was killed.
type End struct {
	Code    int       `json:"code"`
	Limit   string    `json:"limit,omitempty"` // what ended it
	Error   string    `json:"error,omitempty"` // bailey's own
	Hint    string    `json:"hint,omitempty"`
	Started time.Time `json:"started,omitzero"` // of the command
	Ended   time.Time `json:"ended"`            // likewise
	Lacks   []string  `json:"lacks,omitempty"`
	Unfit   string    `json:"unfit,omitempty"`  // of a look: why the command would not start
	Forged  []string  `json:"forged,omitempty"` // objects of git that it left and that were set aside
}
