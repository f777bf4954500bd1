package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/modelgate"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/spell"
)

// modelUse is what a run heard of its model.
type modelUse struct {
	total   *bailey.ModelUse  // at the end
	spent   string            // why a call was refused for the budget, once
	failed  map[string]int    // calls, by why
	codes   map[string]string // why, by the code of the first
	removed map[string]bool   // from requests, by name
}

// startGateway starts the model gateway, if the run has a model, and has the
// key carried to it.
func (u *running) startGateway(ctx context.Context) error {
	m := u.plan.model
	if m == nil {
		return nil
	}
	if err := u.takeSlot(ctx); err != nil {
		return err
	}
	u.keepDecisions()
	today, err := budget.In(u.host.Dirs.Data).Newest(ctx, time.Now())
	if err != nil {
		return err // before an agent starts, which would find nobody there
	}
	record, err := m.openRecord(u.plan.name, u.plan.spec.ID)
	if err != nil {
		return errors.Join(err, today.File.Close())
	}
	g, err := startGateway(modelgate.Settings{
		Sandbox: u.plan.spec.ID, Task: u.req.Task.id(), Pin: m.Pin(), Provider: m.Provider, Price: m.Price, Limits: m.limits,
		Token: m.hash(), Record: m.record != "",
		Upstream: u.plan.upstream.proxy, Extra: u.plan.upstream.extra,
	}, u.host.UID, record, u.modelEvent)
	if err != nil {
		return errors.Join(err, today.File.Close())
	}
	u.gateway = g
	go u.serveDays(u.ctx, g, today) //nolint:contextcheck // until the run ends, and not its start
	if m.Provider.Secret == "" {
		return nil
	}
	return g.carryKey(ctx, u.host, m.Provider, false)
}

// watchGateway ends the run when its gateway does: without it the agent can do
// nothing.
func (u *running) watchGateway() {
	<-u.gateway.events
	time.Sleep(proxyPatience)
	if !u.gone() {
		u.stop <- ending{reason: reasonProxy, message: "the model gateway ended, and with it the only way to the model"}
	}
}

// modelEvent takes what the gateway says. Of what it is not asked to say
// nothing is passed on: it is the process that hostile bytes reach first.
func (u *running) modelEvent(e bailey.Event) {
	switch e.Type {
	case bailey.EventWarning:
		u.warn("model: " + e.Message)
		return
	case bailey.EventError:
		u.out.event(bailey.Event{Type: bailey.EventError, Message: "model: " + e.Message})
		u.out.must("model: %s", e.Message)
		return
	case bailey.EventModelCall, bailey.EventModelRefused, bailey.EventModelTotal:
	default:
		return
	}
	e.Model = u.plan.model.ID
	e = modelFieldsOf(e)
	u.keep(e)
	u.out.event(e)
	u.noteModel(e)
}

// modelFieldsOf leaves the fields that a model's event has.
func modelFieldsOf(e bailey.Event) bailey.Event {
	out := bailey.Event{
		Time: e.Time, Type: e.Type, Model: e.Model, Status: e.Status, Reason: e.Reason, Message: e.Message,
		DurationMS: e.DurationMS, Use: e.Use,
	}
	out.Removed = e.Removed[:min(len(e.Removed), mostRemoved)]
	return out
}

// mostRemoved is how much of what was taken from a request an event lists.
const mostRemoved = 64

// noteModel keeps what the footer says.
func (u *running) noteModel(e bailey.Event) {
	u.uses.called(e)
	u.mu.Lock()
	defer u.mu.Unlock()
	n := &u.modelUse
	if e.Type == bailey.EventModelTotal {
		n.total = e.Use
		return
	}
	for _, r := range e.Removed {
		_, what, ok := strings.Cut(r, ": ")
		if !ok {
			what = r
		}
		if n.removed == nil {
			n.removed = map[string]bool{}
		}
		if len(n.removed) < mostRemoved {
			n.removed[what] = true
		}
	}
	if e.Reason != "" {
		u.noteFailure(n, e)
	}
}

// noteFailure keeps why a call came to nothing, and says at once what the person
// has to know: some agents try for minutes, and say nothing.
func (u *running) noteFailure(n *modelUse, e bailey.Event) {
	if e.Reason == "budget_spent" && n.spent == "" {
		n.spent = e.Message
		u.out.must("model: %s", e.Message)
	}
	if n.failed == nil {
		n.failed, n.codes = map[string]int{}, map[string]string{}
	}
	if n.codes[e.Reason] == "" && len(n.codes) < mostRemoved {
		n.codes[e.Reason] = e.Message
	}
	if e.Reason == "provider_unreachable" && n.failed[n.codes[e.Reason]] == 0 {
		u.out.must("model: %s", e.Message)
	}
	n.failed[n.codes[e.Reason]]++
}

// modelFooter says what the model cost.
func (u *running) modelFooter() {
	m := u.plan.model
	if m == nil {
		return
	}
	u.mu.Lock()
	n := u.modelUse
	u.mu.Unlock()
	failures := 0
	for _, why := range slices.Sorted(maps.Keys(n.failed)) {
		failures += n.failed[why]
		if why != n.spent {
			u.out.say("model: %s (%s)", why, spell.Count(n.failed[why], "call"))
		}
	}
	if len(n.removed) > 0 {
		u.out.say("model: taken out of requests: %s", shortList(slices.Sorted(maps.Keys(n.removed))))
	}
	if n.total == nil {
		u.out.say("model: what was used is in bailey usage")
		return
	}
	if n.total.Requests == 0 && failures > 0 {
		u.out.say("model: %s used nothing: no call was answered (bailey net log says more)", m.ID)
		return
	}
	u.out.say("model: %s used %s", m.ID, useLine(*n.total))
}

// useLine is a sum for people.
func useLine(t bailey.ModelUse) string {
	if t.Requests == 0 {
		return "nothing: no call was made"
	}
	line := fmt.Sprintf("%d input and %d output tokens in %s", t.Input, t.Output, spell.Count(int(t.Requests), "call"))
	if t.CacheRead+t.CacheWrite > 0 {
		line += fmt.Sprintf(", with %d read from the cache and %d written to it", t.CacheRead, t.CacheWrite)
	}
	if cost, err := pricing.ParseUSD(t.CostUSD); err == nil {
		line += ", " + cost.String()
	}
	if t.Estimated {
		line += "; in part an estimate"
	}
	return line
}

// followKey looks at the vault until ctx ends, and has the key carried anew
// when it changes. A vault that cannot be opened changes nothing, and that is
// said.
func (u *running) followKey(ctx context.Context) {
	m := u.plan.model
	if m == nil || m.Provider.Secret == "" {
		return
	}
	place := u.host.Vault()
	mark := place.Mark()
	for told := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(policyPoll):
		}
		now := place.Mark()
		if now == mark {
			continue
		}
		err := u.gateway.carryKey(ctx, u.host, m.Provider, true)
		if err == nil {
			mark, told = now, ""
			continue
		}
		if ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			u.warn("model: the vault was changed and cannot be read: " + text(err) + "; the provider's key stays as it was")
		}
	}
}

// readyModel has the sandbox take model calls.
func (u *running) readyModel(ctx context.Context) error {
	if u.gateway == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	if err := u.wire.Model(ctx); err != nil {
		return fmt.Errorf("have the sandbox take model calls: %w", err)
	}
	go u.watchGateway()
	return nil
}

// takeSlot takes the run's place among those that may use the model at once.
func (u *running) takeSlot(ctx context.Context) error {
	m := u.plan.model
	slot, err := budget.SlotsIn(u.host.Dirs.Runtime).Take(ctx, m.ID, m.MaxAgents)
	if err != nil {
		return err
	}
	u.slot = slot
	return nil
}

// serveDays hands the gateway, which may open no file, the record of each day
// in which it serves: the first unasked.
func (u *running) serveDays(ctx context.Context, g *gatewayRole, page budget.Page) {
	folder := budget.In(u.host.Dirs.Data)
	var err error
	for {
		if sendDay(g.days, page, err) != nil {
			return
		}
		var ask modelgate.Day
		payload, f, gone := fdpass.ReceiveFile(g.days)
		if f != nil {
			_ = f.Close()
		}
		if gone != nil || json.Unmarshal(payload, &ask) != nil {
			return // it is gone, or says what it never says
		}
		page, err = folder.Next(ctx, ask.Day, time.Now())
	}
}

// sendDay hands a day over, or why there is none, and closes its file.
func sendDay(to *os.File, page budget.Page, err error) error {
	d := modelgate.Day{Day: page.Day}
	if err != nil {
		d.Error = text(err)
	}
	payload, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode a day: %w", err)
	}
	if page.File != nil {
		defer page.File.Close()
	}
	return fdpass.SendFile(to, payload, page.File)
}
