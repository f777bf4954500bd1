package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bailey-dev/bailey"
)

// What is asked of the network of a running sandbox.
const (
	NetPending = "pending" // which hosts wait for an answer
	NetAllow   = "allow"   // let a host through
	NetDeny    = "deny"    // refuse it
)

// For how long an answer about a host is.
const (
	ForOnce   = "once"   // for the connections that wait for it
	ForRun    = "run"    // until the sandbox ends
	ForAlways = "always" // and for later ones: it is written into the user's file
)

// NetRequest is one question or order about the network of a sandbox.
type NetRequest struct {
	Do   string `json:"do"`
	Rule string `json:"rule,omitempty"` // HOST or HOST:PORT
	For  string `json:"for,omitempty"`
}

// NetAnswer is what came of it.
type NetAnswer struct {
	Pending []Pending `json:"pending,omitempty"`
	Said    string    `json:"said,omitempty"` // a sentence for a person
}

// Pending is one host that waits for an answer. Its name is the sandbox's word.
type Pending struct {
	Sandbox  string    `json:"sandbox"`
	Host     string    `json:"host"` // or an address
	Port     uint16    `json:"port"`
	Protocol string    `json:"protocol"`
	Asked    time.Time `json:"asked"`
	Until    time.Time `json:"until"` // then it is refused
}

// statsAfter is how long a holder may take to measure: it asks inside as well.
const statsAfter = 5 * time.Second

// netAfter is how long a holder may take: the proxy has to follow.
const netAfter = 20 * time.Second

func answerNet(h Handler, r *NetRequest) answer {
	if r == nil {
		return answer{Error: "the request is missing"}
	}
	a, err := h.Net(*r)
	if err == nil {
		return answer{Net: &a}
	}
	out := answer{Error: err.Error()}
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		out.Hint = e.Hint
	}
	return out
}

// patience is how long a holder may take to answer.
func (r request) patience() time.Duration {
	switch r.Op {
	case Net:
		return netAfter
	case Stats:
		return statsAfter
	default:
		return answerAfter
	}
}

// AskNet sends one order to the named sandbox and returns its answer.
func AskNet(ctx context.Context, dir, name string, r NetRequest) (NetAnswer, error) {
	a, _, err := put(ctx, dir, name, request{Op: Net, Net: &r})
	if refused, ok := errors.AsType[*bailey.Error](err); ok {
		return NetAnswer{}, refused
	}
	if err == nil && a.Net == nil {
		err = fmt.Errorf("ask sandbox %s: no answer", name)
	}
	if err != nil {
		return NetAnswer{}, err
	}
	return *a.Net, nil
}
