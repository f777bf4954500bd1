package redteam

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
)

// Target is what the attacks go for: where things are, and never what they
// hold. It is JSON on the attacker's standard input.
type Target struct {
	Control  bool           `json:"control"`  // there is no sandbox: what would change this machine is left out
	Scratch  string         `json:"scratch"`  // a folder of the workspace that attacks may fill
	Dir      string         `json:"dir"`      // the bait's folder, outside the workspace
	Secret   string         `json:"secret"`   // a file in it
	Socket   string         `json:"socket"`   // a Unix socket in it that answers
	Abstract string         `json:"abstract"` // an abstract one, without its leading NUL
	Sockets  []string       `json:"sockets"`  // of services of this machine
	Keys     []string       `json:"keys"`     // files and folders of the caller that nobody else is to see
	Process  int            `json:"process"`  // a process of the caller that has the secret in its environment
	Variable string         `json:"variable"` // a variable that was not named
	TCP4     netip.AddrPort `json:"tcp4"`     // services on the machine's loopback
	TCP6     netip.AddrPort `json:"tcp6"`     //
	UDP4     netip.AddrPort `json:"udp4"`     //
	UDP6     netip.AddrPort `json:"udp6"`     //
	Own      netip.AddrPort `json:"own"`      // and on another address of the machine
	OwnUDP   netip.AddrPort `json:"own_udp"`  //
	Unlisted string         `json:"unlisted"` // a host that no rule names; empty when every host may be reached
	Unnamed  string         `json:"unnamed"`  // a name that is not to be answered; empty when every name is
	Policy   string         `json:"policy"`   // a policy file of the workspace that is not there; empty when there is one
	Skills   string         `json:"skills"`   // the folder of skills inside; empty for none
	Boot     string         `json:"boot"`     // the host kernel's boot id; empty when the kernel is shared by choice
	Files    int64          `json:"files"`    // how many a process may open
}

// took is what an attack came back with.
type took struct {
	Reached bool   `json:"reached,omitempty"` // it got what it went for
	Moot    bool   `json:"moot,omitempty"`    // there is nothing here to go for
	Late    bool   `json:"late,omitempty"`    // nobody knows: it did not come back
	Data    []byte `json:"data,omitempty"`    // what it read: the judge looks for the bait in it
	Said    string `json:"said,omitempty"`    // one line about it
}

// failed is an attack that came to nothing.
func failed(err error) took { return took{Said: err.Error()} }

// moot is an attack that has nothing to go for here.
func moot(why string) took { return took{Moot: true, Said: why} }

// by is an attack that worked unless there is an error.
func by(err error) took {
	if err != nil {
		return failed(err)
	}
	return took{Reached: true, Said: "it worked"}
}

// attack is one way to break a claim.
type attack struct {
	claim string // ID of docs/threat-model.md
	name  string // unique beneath the claim
	about string // what it tries, in a few words
	alone string // why it is not tried without a sandbox; empty where it is
	try   func(ctx context.Context, t *Target) took
	slow  bool // it takes longer than others
}

func (a attack) id() string { return a.claim + "/" + a.name }

// attacks is the list.
func attacks() []attack {
	var all []attack
	for _, list := range [][]attack{fileAttacks(), kernelAttacks(), processAttacks(), networkAttacks(), limitAttacks(), gitAttacks()} {
		all = append(all, list...)
	}
	return all
}

// report is a line of the attacker's answer.
type report struct {
	ID   string `json:"id"`
	Took took   `json:"took"`
}

// Limits of what an attacker says: it runs in a sandbox that may be anything's.
const (
	patience   = 5 * time.Second // for one attack
	muchTime   = time.Minute     // for a slow one
	mostData   = 64 << 10
	mostAnswer = 16 << 20
)

// Attack reads a Target from in, tries what pick names (all when it is empty),
// and writes a line for each to out.
func Attack(ctx context.Context, in io.Reader, out io.Writer, pick []string) error {
	var t Target
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return fmt.Errorf("read what to attack: %w", err)
	}
	enc := json.NewEncoder(out)
	for _, a := range attacks() {
		if !picked(pick, a.claim, a.id()) || t.Control && a.alone != "" {
			continue
		}
		got := a.attempt(ctx, &t)
		got.Data = got.Data[:min(len(got.Data), mostData)]
		if err := enc.Encode(report{a.id(), got}); err != nil {
			return fmt.Errorf("say what came of %s: %w", a.id(), err)
		}
	}
	return nil
}

// attempt tries one attack. One that does not come back is not waited for.
func (a attack) attempt(ctx context.Context, t *Target) took {
	wait := patience
	if a.slow {
		wait = muchTime
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	done := make(chan took, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- took{Said: fmt.Sprint(r)}
			}
		}()
		done <- a.try(ctx, t)
	}()
	select {
	case got := <-done:
		return got
	case <-ctx.Done():
		return took{Late: true, Said: "it did not come back"}
	}
}

// picked reports whether a pick, which may be empty, names a claim or an
// attack.
func picked(pick []string, names ...string) bool {
	if len(pick) == 0 {
		return true
	}
	for _, p := range pick {
		for _, n := range names {
			if strings.EqualFold(p, n) {
				return true
			}
		}
	}
	return false
}
