package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/bailey-dev/bailey/internal/pricing"
)

// Bounds of what a sandbox may ask for.
const (
	MaxBody = 32 << 20 // bytes of a request

	spare      = 512              // bytes that a request may get longer by, mostly
	maxHeld    = 96 << 20         // bytes of requests that are read, judged, or wait for an answer at a time
	maxTrees   = 96 << 20         // bytes that those which are judged, or wait for the budget, take besides, as trees
	maxHead    = 64 << 10         // bytes of a request's line and fields
	headWait   = 10 * time.Second // for a head, and between a connection and its first
	bodyWait   = 60 * time.Second // for a whole body
	idleWait   = 5 * time.Minute  // for the next request on a connection
	countRate  = 10               // counts of tokens a second: the provider takes no money for them
	countBurst = 20
	freeRate   = 2 // calls a second that come to nothing and cost nothing, on average
	freeBurst  = 200
)

// Budget is what calls are paid from.
type Budget interface {
	// Reserve sets tokens aside: input is an estimate, bound what it is at most,
	// output what is wanted at most, 0 for as much as there is. An error with a method Spent() string means
	// that nothing is left, and why; one with Held() string that there may be some when other calls end.
	Reserve(ctx context.Context, input, bound, output int64) (Grant, error)
}

// Grant is what a call was given. One of its last three methods is called,
// once.
type Grant interface {
	Output() int64                        // the most that the answer may have; 0: there is no bound
	Settle(pricing.Usage)                 // it used this, by the provider's word
	Abandon(pricing.Usage) *pricing.Money // nobody knows: the estimate counts, or if that is nothing, all of it; what that costs, nil without a price
	Release()                             // nothing was sent
	Cost(pricing.Usage) *pricing.Money    // nil: there is no price
}

// Entry is the record of one request, without content.
type Entry struct {
	Time     time.Time
	Endpoint Endpoint
	Model    string // bailey's id
	Served   string // what the provider says answered, where it differs from what was sent
	Stream   bool
	Status   int      // what the sandbox got
	Code     string   // of a refusal or failure; empty for none
	Message  string   // likewise
	Removed  []string // from the request
	Odd      string   // about the answer
	Usage    pricing.Usage
	Known    bool           // else the usage is an estimate
	Cost     *pricing.Money // nil: there is no price
	Left     string         // of the rate limits, as the provider tells them
	Took     time.Duration
	First    time.Duration // to the first byte of the answer
	Retried  bool
}

// Exchange is the content of a call, for who asked for a record of that. Ask is
// what was sent, Answer what was passed on.
type Exchange struct {
	Entry
	Ask, Answer []byte
}

// Config is what a Server needs.
type Config struct {
	Protocol Protocol
	Pin      Pin
	Token    [sha256.Size]byte // of what the sandbox has to say
	Upstream *Upstream
	Budget   Budget
	Log      func(Entry)
	Record   func(Exchange) // nil: content is not recorded
	Now      func() time.Time
}

// Server answers one sandbox.
type Server struct {
	cfg    Config
	http   *http.Server
	held   *semaphore.Weighted // of requests
	room   *semaphore.Weighted // of answers
	trees  *semaphore.Weighted // of requests
	counts *rate.Limiter
	free   *rate.Limiter // of calls that came to nothing
	lull   lull
	bodies bodies
	calls  atomic.Int64

	ending context.Context //nolint:containedctx // ends with the server, and with it what goes on behind the clients' backs
	end    context.CancelFunc
}

// New makes a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, held: semaphore.NewWeighted(maxHeld), room: semaphore.NewWeighted(maxRoom), trees: semaphore.NewWeighted(maxTrees), counts: rate.NewLimiter(countRate, countBurst), free: rate.NewLimiter(freeRate, freeBurst), lull: lull{free: giveBack}}
	s.ending, s.end = context.WithCancel(context.Background()) //nolint:forbidigo // see there
	s.http = &http.Server{
		Handler: s, MaxHeaderBytes: maxHead, ReadHeaderTimeout: headWait, IdleTimeout: idleWait,
		DisableGeneralOptionsHandler: true,                       // OPTIONS * is not served either
		ErrorLog:                     log.New(io.Discard, "", 0), // a stranger's words
		Protocols:                    protocols(),
	}
	return s
}

// protocols is HTTP/1.1 alone: there is one request target, and one authority
// that nobody looks at (D034).
func protocols() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(true)
	return p
}

// Serve answers what is accepted until the listener ends.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve model calls: %w", err)
	}
	return nil
}

// Close ends all calls; what they used is booked by then.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Close()
	s.end()
	for s.calls.Load() > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return err
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	defer s.calls.Add(-1)
	c := &conversation{s: s, w: w, r: r, began: s.cfg.Now()}
	c.entry = Entry{Time: c.began, Model: s.cfg.Pin.ID}
	c.answer() //nolint:contextcheck // it is in the request
}

// conversation is one request and its answer.
type conversation struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	began time.Time
	entry Entry
	call  *Call
	came  []byte // the buffer of what came, until there is something to be sent
	ask   []byte // what is sent
	tape  []byte // what is passed on, where content is recorded
	wrote bool   // the answer has begun
	held  int64  // bytes that this request may hold, of maxHeld
	tree  int64  // likewise, of maxTrees
}

// answer decides. Each step either goes on or has answered.
func (c *conversation) answer() {
	defer c.finish()
	c.entry.Endpoint = c.s.cfg.Protocol.Route(c.r.Method, c.r.RequestURI)
	if c.entry.Endpoint == Hello {
		c.w.WriteHeader(http.StatusOK)
		c.entry.Status = http.StatusOK
		return
	}
	if f := c.admit(); f != nil {
		c.fail(*f)
		return
	}
	if list := c.listed(); list != nil {
		c.send(http.StatusOK, http.Header{"Content-Type": {"application/json"}}, list)
		return
	}
	if f := c.read(); f != nil {
		c.fail(*f)
		return
	}
	c.forward()
}

// listed is what is answered about models without a call; nil: it is a call.
func (c *conversation) listed() []byte {
	switch p := c.s.cfg.Protocol; c.entry.Endpoint { //nolint:exhaustive // the others are calls
	case Models:
		return p.Models(c.s.cfg.Pin)
	case Model:
		return p.Model(c.s.cfg.Pin)
	}
	return nil
}

// admit looks at everything but the body.
func (c *conversation) admit() *Failure {
	switch {
	case !c.authentic():
		return &Failure{http.StatusUnauthorized, "token_invalid", "the request has no token, or not the one of this sandbox: send what bailey has set in ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY or GEMINI_API_KEY, as Authorization: Bearer, x-api-key or x-goog-api-key"}
	case c.r.Header.Get("Upgrade") != "":
		return &Failure{http.StatusUpgradeRequired, "upgrade_not_supported", "the model gateway speaks HTTP/1.1 and no WebSocket"}
	case c.entry.Endpoint == None:
		return &Failure{http.StatusNotFound, "endpoint_not_served", fmt.Sprintf("the model gateway does not serve %s %s; this sandbox has the model %s by the %s protocol", printable(c.r.Method, 16), printable(c.r.RequestURI, 128), c.s.cfg.Pin.ID, c.s.cfg.Pin.Dialect)}
	case c.entry.Endpoint == Models, c.entry.Endpoint == Model:
		return nil
	case c.entry.Endpoint == Count && !c.s.counts.Allow():
		return &Failure{http.StatusTooManyRequests, "too_many_counts", "tokens are counted at most ten times a second"}
	}
	return plainJSON(c.r.Header)
}

// plainJSON refuses bodies whose meaning is not their bytes alone (D029, D030).
func plainJSON(h http.Header) *Failure {
	if v := h.Values("Content-Encoding"); len(v) > 1 || len(v) == 1 && v[0] != "identity" {
		return &Failure{http.StatusUnsupportedMediaType, "encoding_not_supported", "a request is sent as it is, without Content-Encoding"}
	}
	bad := &Failure{http.StatusUnsupportedMediaType, "content_type_not_supported", "the one content type is application/json"}
	v := h.Values("Content-Type")
	if len(v) != 1 {
		return bad
	}
	kind, params, err := mime.ParseMediaType(v[0])
	charset, has := params["charset"]
	if err != nil || kind != "application/json" || has && !strings.EqualFold(charset, "utf-8") || len(params) > 1 || len(params) == 1 && !has {
		return bad
	}
	return nil
}

// authentic looks for the token where the dialects' clients put it. More than
// one line of a field, or two tokens of which one is wrong, are none.
func (c *conversation) authentic() bool {
	found := 0
	ok := 1
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
		for _, v := range c.r.Header.Values(name) {
			if name == "Authorization" {
				scheme, rest, _ := strings.Cut(v, " ")
				if !strings.EqualFold(scheme, "Bearer") {
					return false
				}
				v = rest
			}
			sum := sha256.Sum256([]byte(v))
			ok &= subtle.ConstantTimeCompare(sum[:], c.s.cfg.Token[:])
			found++
		}
	}
	return found > 0 && ok == 1
}

// read takes the body in, and has the dialect judge it.
func (c *conversation) read() *Failure {
	body, f := c.body()
	if f != nil {
		return f
	}
	c.came = body
	if f := c.grow(body); f != nil {
		return f
	}
	c.s.lull.busy()
	call, err := c.s.cfg.Protocol.Read(c.entry.Endpoint, c.r.RequestURI, c.r.Header, body, c.s.cfg.Pin)
	if no, ok := errors.AsType[*Refusal](err); ok {
		return &Failure{no.Status, no.Code, no.Error()}
	}
	if err != nil {
		return &Failure{http.StatusBadRequest, "invalid_request", err.Error()}
	}
	c.call, c.entry.Stream, c.entry.Removed = call, call.Stream, call.Removed
	return nil
}

// body reads a body within the bounds. What all requests hold at a time is
// bounded too; keep gives it back.
func (c *conversation) body() ([]byte, *Failure) {
	size := c.r.ContentLength
	if size > MaxBody {
		return nil, &Failure{http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("a request has at most %d bytes", MaxBody)}
	}
	weight := size
	if size < 0 {
		weight = MaxBody // it may be anything
	}
	if !c.s.held.TryAcquire(weight) && !c.waitForRoom(weight) {
		return nil, &Failure{http.StatusServiceUnavailable, "busy", "too many requests are being read, or wait for the provider, at a time"}
	}
	c.held = weight
	_ = http.NewResponseController(c.w).SetReadDeadline(c.began.Add(bodyWait))
	body, err := readAll(io.LimitReader(c.r.Body, MaxBody+1), c.s.bodies.take(roomFor(size)))
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		return nil, &Failure{http.StatusBadRequest, "body_incomplete", "the body of the request did not come whole"}
	case len(body) > MaxBody:
		return nil, &Failure{http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("a request has at most %d bytes", MaxBody)}
	}
	c.keep(int64(len(body)))
	return body, nil
}

// keep gives back what of maxHeld is more than n bytes: a request is held in
// memory until the provider has it, which may take as long as its answer.
func (c *conversation) keep(n int64) {
	if n < c.held {
		c.s.held.Release(c.held - n)
		c.held = n
	}
}

// grow takes the room that a body may need as a tree. It waits for requests alone
// that wait for nothing that is held here.
func (c *conversation) grow(body []byte) *Failure {
	weight := treeBytes(body)
	ctx, cancel := context.WithTimeout(c.r.Context(), bodyWait)
	defer cancel()
	if c.s.trees.Acquire(ctx, weight) != nil {
		return &Failure{http.StatusServiceUnavailable, "busy", "too many requests of many values are judged at a time"}
	}
	c.tree = weight
	return nil
}

// fell gives the room of the tree back.
func (c *conversation) fell() {
	if c.tree > 0 {
		c.s.trees.Release(c.tree)
		c.tree = 0
	}
}

// waitForRoom waits until other requests are answered.
func (c *conversation) waitForRoom(weight int64) bool {
	ctx, cancel := context.WithTimeout(c.r.Context(), bodyWait)
	defer cancel()
	return c.s.held.Acquire(ctx, weight) == nil
}

// roomFor is the room to begin with for what is announced to have a size, as far
// as that is believed.
func roomFor(size int64) int {
	const believed = 1 << 20
	return int(min(max(size, 0), believed)) + spare
}

// readAll is io.ReadAll with room to begin with.
func readAll(r io.Reader, b []byte) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err //nolint:wrapcheck // its text is told nobody
		}
	}
}

// send answers with a whole body.
func (c *conversation) send(status int, h http.Header, body []byte) {
	maps.Copy(c.w.Header(), h)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	c.wrote, c.entry.Status = true, status
	c.pass(body)
}

// pass writes a part of the answer, and keeps it where content is recorded.
func (c *conversation) pass(b []byte) {
	if c.s.cfg.Record != nil {
		c.tape = append(c.tape, b[:min(len(b), max(0, maxTape-len(c.tape)))]...)
	}
	_, _ = c.w.Write(b) // who is gone shows in the request's context
}

// maxTape bounds what is recorded of an answer, in bytes.
const maxTape = 16 << 20

// fail answers in the gateway's own words.
func (c *conversation) fail(f Failure) {
	c.entry.Code, c.entry.Message = f.Code, f.Message
	if c.wrote {
		c.pass(c.s.cfg.Protocol.FailStream(f))
		return
	}
	status, h, body := c.s.cfg.Protocol.Fail(f)
	if status == http.StatusUnauthorized || status == http.StatusPaymentRequired {
		h.Set("X-Should-Retry", "false")
	}
	c.send(status, h, body)
}

// finish records.
func (c *conversation) finish() {
	if v := recover(); v != nil {
		c.entry.Code, c.entry.Message = "bug", "bug: a request made the model gateway panic: "+printable(fmt.Sprint(v), 256)
		if !c.wrote {
			c.fail(Failure{http.StatusInternalServerError, "bug", "the model gateway has a bug; the request was not sent on, or its answer is lost"})
		}
	}
	defer c.keep(0)
	defer c.fell()
	c.entry.Took = c.s.cfg.Now().Sub(c.began)
	c.s.cfg.Log(c.entry)
	if c.s.cfg.Record != nil && c.call != nil {
		c.s.cfg.Record(Exchange{c.entry, c.ask, c.tape})
	}
}

// printable makes what a sandbox said fit for a record: printable ASCII, at
// most limit bytes.
func printable(s string, limit int) string {
	s = s[:min(len(s), limit)]
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
