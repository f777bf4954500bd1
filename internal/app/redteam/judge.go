package redteam

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// The outcomes of an attack.
const (
	Held  = "held"  // it failed, and works without a sandbox or is not tried there
	Broke = "broke" // it worked
	Idle  = "idle"  // it fails without a sandbox too, or has nothing to go for: it says nothing
	Lost  = "lost"  // the attacker did not say what came of it
)

// Row is what came of an attack. It is the published form.
type Row struct {
	ID      string `json:"id"`
	Claim   string `json:"claim"`
	Attack  string `json:"attack"`
	Outcome string `json:"outcome"`
	Inside  string `json:"inside"`  // what it said
	Without string `json:"without"` // what came of it without a sandbox

	moot bool
}

// Said is what of a row matters to a reader.
func (r Row) Said() string {
	switch r.Outcome {
	case Held:
		return ""
	case Idle:
		if r.moot {
			return r.Inside
		}
		return "fails without a sandbox too: " + r.Without
	}
	return r.Inside
}

// verdict is what came of an attack on one bait.
type verdict struct {
	tried, worked bool
	moot          bool
	said          string
}

// Verdicts are those on one bait, by the attack's id.
type Verdicts map[string]verdict

// Judge reads what the attacker said and looks at what the bait shows.
func (b *Bait) Judge(answer io.Reader) Verdicts {
	out := Verdicts{}
	lines := bufio.NewScanner(io.LimitReader(answer, mostAnswer))
	lines.Buffer(nil, 4*mostData)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // anything may stand there
		}
		out[r.ID] = verdict{!r.Took.Late, r.Took.Reached || bytes.Contains(r.Took.Data, []byte(b.canary)), r.Took.Moot, line(r.Took.Said)}
	}
	for _, a := range attacks() {
		v := out[a.id()]
		if b.evidence(a.id()) {
			v.worked, v.said = true, "it worked: it left its mark on the host"
		}
		out[a.id()] = v
	}
	return out
}

// line is a text as one line of bounded length.
func line(s string) string {
	const most = 200
	s = strings.Join(strings.Fields(s), " ")
	return s[:min(len(s), most)]
}

// Compare puts what came of the attacks inside and without a sandbox together.
func Compare(inside, without Verdicts, pick []string) []Row {
	var rows []Row
	for _, a := range attacks() {
		if !picked(pick, a.claim, a.id()) {
			continue
		}
		in, out := inside[a.id()], without[a.id()]
		r := Row{ID: a.id(), Claim: a.claim, Attack: a.about, Outcome: Held, Inside: in.said, Without: "it works", moot: in.moot}
		switch {
		case a.alone != "":
			r.Without = "not tried: " + a.alone
		case !out.worked:
			r.Without = out.said
		}
		switch {
		case in.worked:
			r.Outcome = Broke
		case !in.tried:
			r.Outcome, r.Inside = Lost, cmp.Or(in.said, "the attacker said nothing of it")
		case in.moot:
			r.Outcome = Idle
		case a.alone == "" && !out.worked:
			r.Outcome = Idle
		}
		rows = append(rows, r)
	}
	return rows
}

// Judge says what came of a bomb, by the exit code of its sandbox.
func (b Bomb) Judge(code int) Row {
	r := Row{ID: b.ID(), Claim: b.Claim, Attack: b.About, Outcome: Held, Inside: "the sandbox was ended", Without: "not tried: " + wouldFill}
	if code == refused {
		r.Inside = "it was refused"
	}
	switch code {
	case b.Exit:
	case worked:
		r.Outcome, r.Inside = Broke, "nothing ended it"
	case late:
		r.Outcome, r.Inside = Lost, "it did not come back"
	default:
		r.Outcome, r.Inside = Broke, fmt.Sprintf("it ended with code %d", code)
	}
	return r
}

// Known reports whether a pick names a claim or an attack.
func Known(pick string) bool {
	for _, a := range attacks() {
		if picked([]string{pick}, a.claim, a.id()) {
			return true
		}
	}
	for _, b := range Bombs() {
		if b.Picked([]string{pick}) {
			return true
		}
	}
	return false
}

// Picked reports whether a pick, which may be empty, names the bomb.
func (b Bomb) Picked(pick []string) bool { return picked(pick, b.Claim, b.ID()) }

// All lists the attacks, as Compare and Judge do, without outcomes.
func All() []Row {
	var rows []Row
	for _, a := range attacks() {
		rows = append(rows, Row{ID: a.id(), Claim: a.claim, Attack: a.about})
	}
	for _, b := range Bombs() {
		rows = append(rows, Row{ID: b.ID(), Claim: b.Claim, Attack: b.About})
	}
	return rows
}
