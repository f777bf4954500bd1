package provider

import "time"

// FaultKind is what goes wrong with the answer to a turn.
type FaultKind uint8

// The kinds of faults.
const (
	Refuse FaultKind = iota + 1 // answer with Status, Header and Body
	Hang                        // send After events, then nothing more until the client is gone
	Cut                         // send After events, then drop the connection
	Break                       // send After events, then the dialect's own event of an error, and end
	Echo                        // repeat the request's header fields in the answer's text and header
	Slow                        // send single bytes with Pace between them
)

// Fault goes wrong for the requests of one turn; the zero Fault does not.
type Fault struct {
	Kind    FaultKind
	Times   int               // how many requests meet it, those after them get the turn; 0: all
	After   int               // events of a stream; with 0 Hang and Cut come before the header. An answer that is no stream is struck in its middle
	Status  int               // of Refuse; with a 3xx, Header has Location
	Header  map[string]string // of Refuse, such as Retry-After
	Body    string            // of Refuse; empty: an error in the dialect's form
	Message string            // of that error; empty: "scripted refusal"
	Pace    time.Duration     // of Slow
}

// Usage is what a turn says that it used, in tokens and as the classes of
// package pricing: Input holds no cached tokens, and Output the reasoning. Any
// number is sent as it is, so that a script can be odd: below zero, or huge.
type Usage struct {
	Input, Output         int64
	CacheRead, CacheWrite int64
	Reasoning             int64 // of Output

	Missing bool   // the answer says nothing of it
	First   *Usage // what a stream says before its last word, where the dialect has a place for it; nil: the same
}

// usual is what a turn says that it used when its script does not.
func usual() Usage { return Usage{Input: 11, Output: 7} }

func (t Turn) usage() Usage {
	if t.Usage == nil {
		return usual()
	}
	return *t.Usage
}

// first is what is said of the usage before the end.
func (u Usage) first() Usage {
	if u.First == nil {
		return u
	}
	return *u.First
}
