package netlog

import (
	"fmt"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// Record is one decision as it is kept. docs/events.md describes the fields;
// all are always there. None holds a secret, a body or the query of a request.
type Record struct {
	Time       time.Time        `json:"time"`
	Sandbox    string           `json:"sandbox"`    // its name
	ID         bailey.SandboxID `json:"sandbox_id"` // names come again, ids do not
	Name       string           `json:"name"`       // the host that was asked for, normalised; "" where there was none
	Port       uint16           `json:"port"`
	Address    string           `json:"address"` // dialled, or asked for if denied
	Proto      string           `json:"proto"`   // dns, tls, http, tcp
	Verdict    string           `json:"verdict"` // allow, deny or ask; "" where the record is about the record
	Rule       string           `json:"rule"`
	Reason     string           `json:"reason"`
	Method     string           `json:"method"`
	Path       string           `json:"path"` // where it was judged, without the query
	BytesIn    int64            `json:"bytes_in"`
	BytesOut   int64            `json:"bytes_out"`
	DurationMS int64            `json:"duration_ms"`
	Program    string           `json:"program"` // what the sandbox says, after "claimed: "
	Open       bool             `json:"open"`    // the connection goes on: another record comes at its end
	Connection uint64           `json:"connection"`
	Secret     string           `json:"secret"` // id of the secret that a request carried; the rule is its name
	Status     int              `json:"status"` // of the answer to that request; 0: none
	Message    string           `json:"message"`
}

// Of returns the record of a network event of the sandbox with that name and
// id, and false for other events.
func Of(e bailey.Event, name string, id bailey.SandboxID) (Record, bool) {
	r := Record{
		Time: e.Time.UTC(), Sandbox: name, ID: id, Name: e.Host, Port: e.Port, Address: e.Address, Proto: e.Protocol,
		Verdict: e.Verdict, Rule: e.Rule, Reason: e.Reason, Method: e.Method, Path: e.Path,
		BytesIn: e.BytesIn, BytesOut: e.BytesOut, DurationMS: e.DurationMS, Open: e.Type == bailey.EventNetOpen || e.Type == bailey.EventNetFlow,
		Connection: e.Connection, Message: e.Message,
	}
	if e.Program != "" {
		r.Program = "claimed: " + e.Program
	}
	switch {
	case e.Type == bailey.EventSecretUse:
		r.Verdict, r.Rule, r.Reason, r.Secret, r.Status = bailey.Allow.String(), e.Name, policy.ReasonSecretUsed, e.Secret, e.Status
		return r, true
	case e.Type == bailey.EventModelCall, e.Type == bailey.EventModelRefused:
		return ofModel(r, e), true
	case e.Type == bailey.EventNetDecision, e.Type == bailey.EventNetOpen, e.Type == bailey.EventNetFlow:
		return r, true
	case e.Type == bailey.EventWarning && e.Reason == policy.ReasonNotRecorded:
		return Record{Time: r.Time, Sandbox: name, ID: id, Reason: policy.ReasonNotRecorded, Message: e.Message}, true
	}
	return Record{}, false
}

// Model is the protocol of a record of a model call.
const Model = "model"

// ofModel is the record of a model call: the model is its name, and what it used
// its message.
func ofModel(r Record, e bailey.Event) Record {
	r.Proto, r.Name, r.Status, r.Verdict = Model, e.Model, e.Status, bailey.Allow.String()
	if e.Type == bailey.EventModelRefused {
		if !strings.HasPrefix(e.Reason, "provider_") { // what went wrong there was not refused here
			r.Verdict = bailey.Deny.String()
		}
		return r
	}
	if r.Reason == "" {
		r.Reason = askedFor(e.Use)
	}
	var parts []string
	if u := e.Use; u != nil && u.Asked == "" {
		parts = append(parts, fmt.Sprintf("%d tokens in, %d out", u.Input+u.CacheRead+u.CacheWrite, u.Output))
		if u.CostUSD != "" {
			parts = append(parts, u.CostUSD+" USD")
		}
		if u.Estimated {
			parts = append(parts, "estimated: the answer did not say it")
		}
	}
	if len(e.Removed) > 0 {
		parts = append(parts, "taken out: "+strings.Join(e.Removed, ", "))
	}
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	r.Message = strings.Join(parts, "; ")
	return r
}

// askedFor names what a call was for.
func askedFor(u *bailey.ModelUse) string {
	switch {
	case u != nil && u.Asked == bailey.AskedModels:
		return "model-list"
	case u != nil && u.Asked == bailey.AskedCount:
		return "model-count"
	}
	return "model-call"
}

// class is a kind of record. Each has files of its own, so that no flood of
// one pushes out another: the connections that were allowed above all.
type class uint8

const (
	connections class = iota // allowed ones
	lookups                  // allowed ones
	refusals                 // of both, and what is said about the record
	classes
)

func (c class) String() string { return [classes]string{"allow", "dns", "deny"}[c] }

// limit is how large a file of the class gets before the next is begun.
func (c class) limit() int64 {
	if c == connections {
		return 16 << 20
	}
	return 4 << 20
}

func classOf(r Record) class {
	switch {
	case r.Verdict != bailey.Allow.String():
		return refusals
	case r.Proto == "dns":
		return lookups
	}
	return connections
}
