package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/pricing"
)

// Bounds of what is read of an answer.
const (
	maxAnswer = 64 << 20        // bytes, of one that is no stream
	maxError  = 64 << 10        // bytes, of one that says what was wrong
	drainWait = 5 * time.Second // how long the rest is read of an answer that nobody wants any more
	speed     = 4000            // tokens a second that a model may make unseen, for an estimate: more than the fastest services do (about 3000)
	seenShare = 125             // per cent of what an estimate makes of what was seen
)

// forward sends the call, passes the answer on, and has it booked.
func (c *conversation) forward() {
	if f := c.ready(); f != nil {
		c.fail(*f)
		return
	}
	grant, f := c.reserve()
	if f != nil {
		c.fail(*f)
		return
	}
	meter := c.s.cfg.Protocol.Meter(c.call)
	c.ask = c.call.Body.AppendTo(c.came[:0]) // the tree holds no part of that
	c.came, c.call.Body = nil, nil
	c.fell()
	// The call does not end with the client: what the provider has begun is paid
	// for, and how much that was stands at the end of the answer.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.r.Context()))
	defer cancel(nil)
	gone := context.AfterFunc(c.r.Context(), func() {
		if grant == nil {
			cancel(errGone)
			return
		}
		time.AfterFunc(drainWait, func() { cancel(errGone) })
	})
	defer gone()
	ended := context.AfterFunc(c.s.ending, func() { cancel(errGone) })
	defer ended()
	how := c.exchange(ctx, cancel, meter)
	if how != unsent && !c.call.Stream && errors.Is(context.Cause(ctx), errGone) {
		how = left
	}
	if how == unsent && c.entry.Endpoint == Generate {
		c.s.free.Reserve() // below nothing too: those that were under way together count each
	}
	c.settle(grant, meter, how)
}

// ready refuses what the provider would not be asked, before anything is written
// of it: neither costs the sandbox anything, and what is reserved and let go stands
// in the record of usage for good. So do calls that the provider refuses.
func (c *conversation) ready() *Failure {
	if err := c.s.cfg.Upstream.ready(); err != nil {
		f, _ := c.unanswered(c.r.Context(), err)
		return &f
	}
	if c.entry.Endpoint == Generate && c.s.free.Tokens() < 1 {
		c.w.Header().Set("Retry-After", "1")
		return &Failure{http.StatusTooManyRequests, "too_many_failures", "of calls that the provider refuses or does not get, two a second may be made"}
	}
	return nil
}

// bound is what the input is at most: no model takes more than its context.
func (c *conversation) bound() int64 {
	if most := c.s.cfg.Pin.Context; most > 0 {
		return max(c.call.Input, min(c.call.Bound, most))
	}
	return max(c.call.Input, c.call.Bound)
}

// outcome is how far a call came.
type outcome uint8

const (
	unsent  outcome = iota // the provider has not seen it, or says that it did not do it
	lost                   // nobody knows what the provider did with it
	answers                // the answer has begun
	left                   // nobody waits for it, and the provider may make it to its end: only streams are stopped for sure
)

// errGone ends a call whose client is gone.
var errGone = errors.New("the sandbox has ended the request")

// reserve pays ahead for a model call, and lowers it to what is left.
func (c *conversation) reserve() (Grant, *Failure) {
	if c.entry.Endpoint != Generate {
		return nil, nil //nolint:nilnil // a count of tokens costs nothing
	}
	grant, err := c.s.cfg.Budget.Reserve(c.r.Context(), c.call.Input, c.bound(), c.call.Output)
	if spent, ok := errors.AsType[interface {
		error
		Spent() string
	}](err); ok {
		return nil, &Failure{http.StatusPaymentRequired, "budget_spent", spent.Spent()}
	}
	if held, ok := errors.AsType[interface {
		error
		Held() string
	}](err); ok {
		c.w.Header().Set("Retry-After", "5")
		return nil, &Failure{http.StatusTooManyRequests, "budget_held", held.Held()}
	}
	if err != nil {
		return nil, &Failure{http.StatusServiceUnavailable, "budget_unavailable", "the budget cannot be kept: " + err.Error()}
	}
	if n := grant.Output(); n > 0 {
		c.s.cfg.Protocol.SetOutput(c.call, n)
		c.entry.Removed = c.call.Removed // what there was no more room for
	}
	return grant, nil
}

// exchange has the call answered.
func (c *conversation) exchange(ctx context.Context, cancel context.CancelCauseFunc, meter Meter) outcome {
	sent := &parcel{b: c.ask, size: int64(len(c.ask))}
	if c.s.cfg.Record == nil {
		sent.free = c.s.bodies.put
	}
	asked := c.s.cfg.Now()
	res, err := c.s.cfg.Upstream.do(ctx, c.call, sent)
	if c.s.cfg.Record == nil {
		c.ask = nil // it may be large, and the answer may take long
		c.keep(0)
	}
	if err != nil {
		f, how := c.unanswered(ctx, err)
		c.fail(f)
		return how
	}
	c.entry.First, c.entry.Retried, c.entry.Left = c.s.cfg.Now().Sub(c.began), res.retried, limitsLeft(res.Header)
	body := waitFor(res.Body, cancel)
	defer func() { _ = body.Close() }()
	copyFields(c.w.Header(), res.Header)
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.StatusCode != http.StatusOK:
		c.refused(res.StatusCode, kind, body)
		if Worked(res.StatusCode, c.s.cfg.Now().Sub(asked)) {
			return lost
		}
		return unsent
	case kind == "text/event-stream":
		c.stream(ctx, meter, body)
	case kind == "application/json":
		c.whole(ctx, meter, body, res.ContentLength)
	default:
		c.fail(Failure{http.StatusBadGateway, "provider_answer_unknown", fmt.Sprintf("the provider answered with the content type %q", printable(kind, 64))})
	}
	return answers
}

// unanswered says what happened to a call that the provider did not answer.
func (c *conversation) unanswered(ctx context.Context, err error) (Failure, outcome) {
	name := c.s.cfg.Upstream.p.Name
	if errors.Is(err, errNoKey) {
		key := c.s.cfg.Upstream.p.Key
		return Failure{http.StatusForbidden, "provider_key_removed", fmt.Sprintf("the key of the provider %s was removed: bailey secret set %s --for gateway, outside of the sandbox, keeps another", name, key)}, unsent
	}
	if open, ok := errors.AsType[*openError](err); ok {
		c.w.Header().Set("Retry-After", fmt.Sprintf("%.0f", max(1, open.wait.Seconds())))
		return Failure{http.StatusServiceUnavailable, "provider_down", open.Error()}, unsent
	}
	if errors.Is(err, errDial) || errors.Is(err, errTrust) {
		return Failure{http.StatusBadGateway, "provider_unreachable", fmt.Sprintf("the provider %s cannot be reached: %s", name, printable(err.Error(), 256))}, unsent
	}
	if cause := context.Cause(ctx); cause != nil {
		return Failure{http.StatusGatewayTimeout, "cancelled", cause.Error()}, lost
	}
	return Failure{http.StatusBadGateway, "provider_failed", fmt.Sprintf("the provider %s did not answer: %s", name, printable(err.Error(), 256))}, lost
}

// refused passes on what the provider says was wrong. What concerns the
// operator's key is not the harness's to mend: it would ask for a login.
func (c *conversation) refused(status int, kind string, body io.Reader) {
	text, _ := io.ReadAll(io.LimitReader(body, maxError))
	name := c.s.cfg.Upstream.p.Name
	switch {
	case status >= 300 && status < 400:
		c.fail(Failure{http.StatusBadGateway, "provider_redirect", fmt.Sprintf("the provider %s answered with a redirect, which is not followed: its base_url is another", name)})
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		c.fail(Failure{http.StatusForbidden, "provider_refused_key", fmt.Sprintf("the provider %s refused the key that bailey has for it (%d)%s", name, status, c.mendKey())})
	case status < 400 || kind != "application/json":
		c.fail(Failure{max(status, http.StatusBadGateway), "provider_failed", fmt.Sprintf("the provider %s answered %d", name, status)})
	default:
		c.entry.Code, c.entry.Message = "provider_refused", fmt.Sprintf("the provider %s answered %d", name, status)
		c.send(status, http.Header{"Content-Type": {"application/json"}}, text)
	}
}

// mendKey says how a key is mended, where there is one.
func (c *conversation) mendKey() string {
	if key := c.s.cfg.Upstream.p.Key; key != "" {
		return ": bailey secret rotate " + key + ", outside of the sandbox, gives another"
	}
	return ": it wants one, and models.yaml names none"
}

// stream passes events on as they come.
func (c *conversation) stream(ctx context.Context, meter Meter, body io.Reader) {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	c.w.WriteHeader(http.StatusOK)
	c.wrote, c.entry.Status = true, http.StatusOK
	flush := http.NewResponseController(c.w) // the head goes with the first event: each message inside costs much
	space := &room{all: c.s.room}
	defer space.leave()
	in := newEvents(body, space)
	var out []byte
	for {
		name, data, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			c.broken(ctx, err)
			return
		}
		if crowded(data) {
			c.broken(ctx, errCrowded)
			return
		}
		if (name != "" || len(data) > 0) && !meter.Event(name, data) {
			continue
		}
		out = appendEvent(out[:0], name, data)
		c.pass(out)
		if in.r.Buffered() == 0 {
			_ = flush.Flush()
		}
	}
	if !meter.Result().Ended {
		c.broken(ctx, io.ErrUnexpectedEOF)
	}
}

// broken ends a stream that has not ended well.
func (c *conversation) broken(ctx context.Context, err error) {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	c.fail(Failure{http.StatusBadGateway, "stream_broken", "the provider's answer broke off: " + printable(wordless(err.Error()), 128)})
}

// whole passes on an answer that is no stream.
func (c *conversation) whole(ctx context.Context, meter Meter, body io.Reader, size int64) {
	const usual = 8 << 10 // with less room, what looks for the key would read into memory of its own
	space := &room{all: c.s.room}
	defer space.leave()
	text, err := readAll(&roomed{from: io.LimitReader(body, maxAnswer+1), room: space}, make([]byte, 0, roomFor(max(size, usual))))
	switch {
	case err != nil:
		c.broken(ctx, err)
	case crowded(text):
		c.fail(Failure{http.StatusBadGateway, "answer_too_large", errCrowded.Error()})
	case len(text) > maxAnswer:
		c.fail(Failure{http.StatusBadGateway, "answer_too_large", fmt.Sprintf("the provider's answer has more than %d bytes", maxAnswer)})
	default:
		c.send(http.StatusOK, http.Header{"Content-Type": {"application/json"}}, meter.Whole(text))
		_ = http.NewResponseController(c.w).Flush() // what is booked and recorded now need not be waited for
	}
}

// settle books what the call used.
func (c *conversation) settle(grant Grant, meter Meter, how outcome) {
	r := meter.Result()
	if grant != nil {
		r = credible(r)
	}
	c.entry.Odd = r.Odd
	if r.Served != c.s.cfg.Pin.Name {
		c.entry.Served = printable(r.Served, 128)
	}
	switch {
	case grant == nil:
		return
	case r.Known:
		c.entry.Usage, c.entry.Known = r.Usage, true
		grant.Settle(r.Usage)
	case how == unsent:
		grant.Release()
		return
	case r.Ended && !r.Failed, (how == left || how == answers && !c.call.Stream && !r.Failed) && grant.Output() > 0: // it was made to its end
		c.entry.Usage = pricing.Usage{Input: c.bound(), Output: grant.Output()}
		c.entry.Cost = grant.Abandon(pricing.Usage{})
		return
	default:
		c.entry.Usage = estimate(r, c.bound(), grant.Output(), c.s.cfg.Now().Sub(c.began))
		grant.Abandon(c.entry.Usage)
	}
	c.entry.Cost = grant.Cost(c.entry.Usage)
}

// credible is a result that is not known where the provider says that a call had
// no input, or that what it was seen to answer is nothing: some servers have the
// counts and leave them at 0, and no call is free for that (D053).
func credible(r Result) Result {
	u := r.Usage
	var odd string
	switch {
	case !r.Known:
		return r
	case u.Input+u.CacheRead+u.CacheWrite+u.CacheWrite1h == 0:
		odd = "no input was counted"
	case u.Output == 0 && r.Output > 0:
		odd = "no output was counted"
	default:
		return r
	}
	r.Known = false
	if r.Odd != "" {
		odd = r.Odd + "; " + odd
	}
	r.Odd = odd
	return r
}

// estimate is what a call used whose answer broke off: of the input what the
// provider said, or else the most that it can be, or a sandbox would hang up on
// each call and pass any budget by what the guess is wrong; and of the output either what was seen of it, or what it can
// have made in the time, as thoughts are not always shown. It is never more
// than what was reserved.
func estimate(r Result, input, most int64, took time.Duration) pricing.Usage {
	u := r.Usage
	if u.Input+u.CacheRead+u.CacheWrite+u.CacheWrite1h == 0 {
		u.Input = input
	}
	unseen := int64(took.Seconds()*speed) + 1
	u.Output = max(u.Output, r.Output*seenShare/100, unseen)
	if most > 0 {
		u.Output = min(u.Output, most)
	}
	return u
}

// copyFields passes on the fields of an answer that a harness acts by. Those
// that name the operator's organisation are not among them.
func copyFields(to, from http.Header) {
	for name, values := range from {
		lower := strings.ToLower(name)
		if slices.Contains([]string{"request-id", "x-request-id", "retry-after", "retry-after-ms", "x-should-retry"}, lower) ||
			strings.HasPrefix(lower, "anthropic-ratelimit-") || strings.HasPrefix(lower, "x-ratelimit-") {
			to[name] = values
		}
	}
}

// limitsLeft sums up what a provider says of its rate limits, for the record.
func limitsLeft(h http.Header) string {
	var out []string
	for name, values := range h {
		lower := strings.ToLower(name)
		what, ok := strings.CutPrefix(lower, "anthropic-ratelimit-")
		if !ok {
			what, ok = strings.CutPrefix(lower, "x-ratelimit-")
		}
		if ok && strings.Contains(what, "remaining") && len(values) == 1 {
			out = append(out, printable(what, 40)+" "+printable(values[0], 32))
		}
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), 8)], ", ")
}
