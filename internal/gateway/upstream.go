package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey/internal/inject"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
	"github.com/bailey-dev/bailey/internal/upstream"
)

// Times of the provider's side.
const (
	dialWait    = 10 * time.Second
	answerWait  = 10 * time.Minute // for the head of an answer, which may come after all of the thinking
	silenceWait = 5 * time.Minute  // between two pieces of an answer
	retryMost   = 3 * time.Second  // a longer wait is the harness's to decide about
)

// Provider is where calls go.
type Provider struct {
	Name  string
	Key   string                          // the name of the secret that its key is; empty: it has none
	URL   func(target string) string      // the address of a call's target
	Sign  func(h http.Header, key []byte) // puts the key on a request
	Roots *x509.CertPool
	Way   *upstream.Way // by way of which it is reached; nil: directly
}

// Upstream sends calls to one provider. The key is in no other place of the
// process than here.
type Upstream struct {
	p       Provider
	client  *http.Transport
	lender  inject.Lender
	circuit circuit

	mu  sync.Mutex
	key seal.Secret
}

// keyID stands for the provider's key among the secrets that answers are kept
// free of.
const keyID = secret.ID("provider-key")

// loginID stands for the login of the upstream proxy, likewise.
const loginID = secret.ID("upstream-login")

// NewUpstream makes an Upstream without a key.
func NewUpstream(p Provider, now func() time.Time) *Upstream {
	u := &Upstream{p: p, circuit: circuit{now: now}}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	u.client = &http.Transport{
		Proxy:       nil, // the environment of this process is not the operator's word (D081)
		DialContext: dialUpward, TLSHandshakeTimeout: dialWait, ResponseHeaderTimeout: answerWait,
		TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.Roots},
		DisableCompression: true, Protocols: protocols,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: maxHead,
		ReadBufferSize: 2 << 10, WriteBufferSize: 2 << 10, // each stream has both as long as it lasts
	}
	p.Way.Into(u.client)
	return u
}

// SetKey puts another key in the place of the one before, from the next call
// on. The old one is kept out of answers as long as the process lives.
func (u *Upstream) SetKey(key seal.Secret) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	held := []inject.Held{}
	if w := u.p.Way; w != nil && w.Forward && len(w.Login) > 0 {
		held = append(held, inject.Held{ID: loginID, Name: "the login of your upstream proxy", Value: seal.NewSecret(slices.Clone(w.Login)), Placeholder: secret.NewPlaceholder(w.Login, 0)})
	}
	if key.Len() > 0 {
		held = append(held, inject.Held{ID: keyID, Name: "the provider's key", Value: key, Placeholder: secret.NewPlaceholder(key.Reveal(), 0)})
	}
	if _, err := u.lender.Adopt(held); err != nil {
		return fmt.Errorf("key of provider %s: %w", u.p.Name, err)
	}
	u.key = key
	return nil
}

// reply is the head of a provider's answer, whose body holds no key.
type reply struct {
	*http.Response

	retried bool
}

// errKey is for an answer out of which the key cannot be kept.
var errKey = errors.New("the provider compressed its answer, though that was not asked for, and its key could not be looked for in it")

// openError is a circuit that is open.
type openError struct{ wait time.Duration }

func (e *openError) Error() string {
	return fmt.Sprintf("the provider failed several times in a row; it is asked again in %.0f seconds", max(1, e.wait.Seconds()))
}

// do sends a call. What failed before the provider can have seen it, or what
// the provider itself says to send again soon, is sent once more.
func (u *Upstream) do(ctx context.Context, call *Call, sent *parcel) (*reply, error) {
	defer sent.answered()
	if err := u.ready(); err != nil {
		return nil, err
	}
	res, err := u.once(ctx, call, sent)
	retried := false
	if wait, again := retryable(res, err); again && ctx.Err() == nil {
		if res != nil {
			_ = res.Body.Close()
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		retried = true
		res, err = u.once(ctx, call, sent) //nolint:bodyclose // the caller's, as the first
	}
	u.circuit.note(ctx.Err() == nil && (err != nil || res.StatusCode >= http.StatusInternalServerError))
	if err != nil {
		return nil, err
	}
	return &reply{res, retried}, nil
}

// ready reports why no call can be sent just now.
func (u *Upstream) ready() error {
	if u.p.Key != "" && !u.hasKey() {
		return errNoKey
	}
	if wait := u.circuit.open(); wait > 0 {
		return &openError{wait}
	}
	return nil
}

func (u *Upstream) hasKey() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.key.Len() > 0
}

// errNoKey is the cause of a call that is not sent, as its key was taken back.
var errNoKey = errors.New("there is no key any more")

// once sends a call and has the key taken out of the answer.
func (u *Upstream) once(ctx context.Context, call *Call, body *parcel) (*http.Response, error) {
	ctx, connected := Connected(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.p.URL(call.Target), body.open())
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	// For a connection that turns out to be closed before anything was sent.
	req.GetBody = func() (io.ReadCloser, error) { return body.open(), nil }
	req.ContentLength = body.size
	maps.Copy(req.Header, call.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "bailey")
	loan, err := u.lender.Lend(req, inject.Target{Host: req.URL.Hostname()})
	if err != nil {
		return nil, fmt.Errorf("look for the key in a request: %w", err)
	}
	u.sign(req)
	res, err := u.client.RoundTrip(req)
	if err != nil {
		return nil, covered(loan, err, connected())
	}
	if u.p.Way != nil && res.StatusCode == http.StatusProxyAuthRequired {
		_ = res.Body.Close() // it is the proxy's, and said to us
		return nil, fmt.Errorf("%w: %w", errDial, upstream.ErrLogin)
	}
	if c := res.Header.Get("Content-Encoding"); c != "" && c != "identity" {
		_ = res.Body.Close()
		return nil, errKey
	}
	if err := loan.Answer(res); err != nil {
		return nil, errors.Join(err, res.Body.Close())
	}
	return res, nil
}

// errDial is the cause of a call that was not sent, and errTrust that of one
// whose provider did not prove its name.
var (
	errDial  = errors.New("no connection")
	errTrust = errors.New("not the provider")
)

// covered is an error of the transport, which may quote what was sent and what
// came.
func covered(loan *inject.Loan, err error, connected bool) error {
	text := loan.Cover(err.Error())
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w: %s", errTrust, text)
	}
	if !connected {
		return fmt.Errorf("%w: %s", errDial, wordless(text))
	}
	return errors.New(wordless(text)) //nolint:err113 // it is told and not looked at
}

// wordless is an error's text without what it quotes of an answer, which is
// content and stands in no record (D076). The library puts that between quotes,
// or behind what it calls malformed.
func wordless(text string) string {
	text, _, _ = strings.Cut(text, `"`)
	if i := strings.Index(text, "malformed"); i >= 0 {
		what, _, _ := strings.Cut(text[i:], ":")
		text = text[:i] + what
	}
	return strings.TrimRight(text, " :")
}

// sign puts the key on.
func (u *Upstream) sign(req *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.key.Len() > 0 {
		u.p.Sign(req.Header, u.key.Reveal())
	}
}

// retryable tells whether a call may be sent once more, and after which wait:
// no connection was made, or the provider says that it is busy and that it will
// not be in a moment. Whatever else went wrong may have been paid for.
func retryable(res *http.Response, err error) (time.Duration, bool) {
	if errors.Is(err, errDial) {
		return 100 * time.Millisecond, true
	}
	if err != nil || res.Header.Get("X-Should-Retry") == "false" {
		return 0, false
	}
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, statusOverloaded:
		wait, said := retryAfter(res.Header)
		return wait, said && wait <= retryMost
	}
	return 0, false
}

// retryAfter reads how long a provider wants us to wait.
func retryAfter(h http.Header) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 && ms < 1e9 {
		return time.Duration(ms) * time.Millisecond, true
	}
	if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil && s >= 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second)), true
	}
	return 0, false
}

// circuit keeps a provider that fails from being asked again and again.
type circuit struct {
	now func() time.Time

	mu     sync.Mutex
	failed int       // in a row
	until  time.Time // when it may be asked again
}

// After circuitFailures failures in a row a provider is left alone for
// circuitPause.
const (
	circuitFailures = 5
	circuitPause    = 10 * time.Second
)

// open returns how long the provider is left alone still. After the pause one
// failure more begins another.
func (c *circuit) open() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed < circuitFailures {
		return 0
	}
	return max(0, c.until.Sub(c.now()))
}

// note counts how a call went.
func (c *circuit) note(failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !failed {
		c.failed = 0
		return
	}
	c.failed++
	c.until = c.now().Add(circuitPause)
}

// errSilent ends an answer of which nothing comes any more.
var errSilent = errors.New("the provider sent nothing for minutes")

// patient is a body that ends when nothing comes for a while.
type patient struct {
	io.ReadCloser

	timer *time.Timer
}

// waitFor makes cancel the end of a silence.
func waitFor(body io.ReadCloser, cancel context.CancelCauseFunc) *patient {
	return &patient{body, time.AfterFunc(silenceWait, func() { cancel(errSilent) })}
}

// Read reads.
func (p *patient) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.timer.Reset(silenceWait)
	return n, err //nolint:wrapcheck // a reader
}

// Close closes.
func (p *patient) Close() error {
	p.timer.Stop()
	return p.ReadCloser.Close() //nolint:wrapcheck // a reader
}
