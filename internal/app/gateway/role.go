package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/anthropic"
	"github.com/bailey-dev/bailey/internal/gateway/gemini"
	"github.com/bailey-dev/bailey/internal/gateway/openai"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/linux/landlock"
	"github.com/bailey-dev/bailey/internal/linux/seccomp"
	"github.com/bailey-dev/bailey/internal/modelgate"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/upstream"
	"github.com/bailey-dev/bailey/internal/wire"
)

// endWait is how long the calls that are open may take to be booked at the end.
const endWait = time.Second

// Main is the process: it serves until the wire or the socket for ledgers ends,
// and returns the exit code: 0 for that end, bailey.ExitBailey if it could not
// serve. The reason is the last event and is said on standard error too.
func Main(args []string) int {
	if len(args) > 0 {
		fmt.Fprintln(os.Stderr, "bailey gateway: it takes no arguments; bailey starts it")
		return bailey.ExitBailey
	}
	if err := inherit.Check(modelgate.FDSettings, modelgate.FDRecord); err != nil {
		fmt.Fprintf(os.Stderr, "bailey gateway: %v\n", err)
		return bailey.ExitBailey
	}
	log.SetOutput(io.Discard)                           // what a provider sends that nobody asked for is a stranger's words
	err := serve(context.Background(), time.Now, files{ //nolint:forbidigo // a process begins here
		settings: inherit.Polled(modelgate.FDSettings, "settings"),
		wire:     inherit.Polled(modelgate.FDWire, "wire"),
		events:   os.NewFile(modelgate.FDEvents, "events"),
		days:     inherit.Polled(modelgate.FDDays, "days"),
		keys:     inherit.Polled(modelgate.FDKeys, "keys"),
		record:   os.NewFile(modelgate.FDRecord, "record"),
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "bailey gateway: %v\n", err)
		return bailey.ExitBailey
	}
	return 0
}

// files are the descriptors of the role.
type files struct{ settings, wire, events, days, keys, record *os.File }

func serve(ctx context.Context, now func() time.Time, fds files) error {
	j := &journal{now: now, out: fds.events}
	err := confineAndServe(ctx, j, fds)
	if err != nil {
		j.say(bailey.EventError, err.Error())
	}
	return err
}

func confineAndServe(ctx context.Context, j *journal, fds files) error {
	harden.FirstToGo()
	if err := harden.Process(); err != nil {
		return err
	}
	settings, err := readSettings(fds.settings)
	if err := errors.Join(err, fds.settings.Close()); err != nil {
		return err
	}
	j.sandbox, j.model = settings.Sandbox, settings.Pin.ID
	roots, err := upstream.Roots(settings.Extra) // as long as files can be read
	if err != nil {
		return err
	}
	if err := confine(j); err != nil {
		return err
	}
	up, err := toProvider(settings, roots, fds.keys, j.now)
	if err != nil {
		return err
	}
	return answer(ctx, settings, up, j, fds)
}

// confine takes away what the role does not need. Reading is left for what the
// resolver reads again and again, and making sockets for dialling out.
func confine(j *journal) error {
	if landlock.Level() == 0 {
		j.say(bailey.EventWarning, "this kernel has no Landlock: the model gateway runs without that layer (enable it with lsm=landlock,… at boot)")
	} else if err := landlock.ConfineToNames(); err != nil {
		return err
	}
	return seccomp.Confine(seccomp.Needs{Dial: true})
}

// readSettings reads and checks the document.
func readSettings(r io.Reader) (modelgate.Settings, error) {
	var s modelgate.Settings
	if err := inherit.Document(r, modelgate.MaxMessage, &s); err != nil {
		return s, err
	}
	if !s.Sandbox.Valid() {
		return s, fmt.Errorf("read settings: sandbox id %q is not valid", s.Sandbox)
	}
	if len(s.Token) != sha256.Size {
		return s, errors.New("read settings: no hash of a token")
	}
	return s, nil
}

// protocolOf returns a dialect's rules.
func protocolOf(d gateway.Dialect) (gateway.Protocol, error) {
	switch d {
	case gateway.Anthropic:
		return anthropic.New()
	case gateway.OpenAIResponses:
		return openai.NewResponses()
	case gateway.OpenAIChat:
		return openai.NewChat()
	case gateway.Gemini:
		return gemini.New()
	}
	return nil, fmt.Errorf("read settings: there is no dialect %q", d)
}

// toProvider makes the way to the provider, and follows its key.
func toProvider(s modelgate.Settings, roots *x509.CertPool, keys *os.File, now func() time.Time) (*gateway.Upstream, error) {
	auth := s.Provider.Auth()
	up := gateway.NewUpstream(gateway.Provider{
		Name: s.Provider.Name, Key: s.Provider.Secret, URL: s.Provider.URL, Roots: roots, Way: upstream.New(s.Upstream),
		Sign: func(h http.Header, key []byte) { auth.Put(h, key) },
	}, now)
	if s.Provider.Secret == "" {
		return up, nil
	}
	dec := json.NewDecoder(keys)
	if err := nextKey(dec, up); err != nil {
		return nil, err
	}
	go func() {
		for nextKey(dec, up) == nil { // it ends with the process
		}
	}()
	return up, nil
}

// nextKey waits for the next key, and has it used from then on.
func nextKey(dec *json.Decoder, up *gateway.Upstream) error {
	var k modelgate.Key
	if err := dec.Decode(&k); err != nil {
		return fmt.Errorf("read the provider's key: %w", err)
	}
	return up.SetKey(seal.NewSecret(k.Value))
}

// answer serves until the wire ends.
func answer(ctx context.Context, s modelgate.Settings, up *gateway.Upstream, j *journal, fds files) error {
	protocol, err := protocolOf(s.Pin.Dialect)
	if err != nil {
		return err
	}
	book, err := newBook(ctx, s, fds.days, j)
	if err != nil {
		return err
	}
	defer book.close()
	calls, err := wire.NewCalls(fds.wire)
	if err != nil {
		return err
	}
	cfg := gateway.Config{
		Protocol: protocol, Pin: s.Pin, Token: [sha256.Size]byte(s.Token),
		Upstream: up, Budget: book, Log: j.call, Now: j.now,
	}
	if s.Record {
		cfg.Record = (&recorder{out: fds.record}).write
	}
	server := gateway.New(cfg)
	err = server.Serve(calls)
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	_ = server.Close(ctx)
	j.total()
	return err
}
