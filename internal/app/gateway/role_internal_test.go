package gateway

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/modelgate"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// settingsOf is a document that is well.
func settingsOf() modelgate.Settings {
	return modelgate.Settings{
		Sandbox: bailey.NewSandboxID(), Pin: gateway.Pin{ID: "small", Name: "real-1", Dialect: gateway.Anthropic},
		Token: make([]byte, 32), Limits: budget.Limits{Run: budget.Limit{Tokens: 1000}},
	}
}

// TestReadSettings: what is not whole, or not known, is refused.
func TestReadSettings(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(settingsOf())
	if err != nil {
		t.Fatal(err)
	}
	if s, err := readSettings(strings.NewReader(string(good))); err != nil || s.Pin.Name != "real-1" {
		t.Fatalf("%v, %+v", err, s)
	}
	for name, text := range map[string]string{
		"nothing":       "",
		"cut":           string(good[:len(good)/2]),
		"more":          string(good) + "{}",
		"unknown":       `{"sandbx":1}`,
		"no sandbox":    strings.Replace(string(good), `"sandbox":"sbx_`, `"sandbox":"x_`, 1),
		"a short token": strings.Replace(string(good), `"token":"AAAA`, `"token":"`, 1),
	} {
		if _, err := readSettings(strings.NewReader(text)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestProtocolOf(t *testing.T) {
	t.Parallel()
	for _, d := range []gateway.Dialect{gateway.Anthropic, gateway.OpenAIResponses, gateway.OpenAIChat, gateway.Gemini} {
		if p, err := protocolOf(d); err != nil || p == nil {
			t.Errorf("%s: %v", d, err)
		}
	}
	if _, err := protocolOf("esperanto"); err == nil {
		t.Error("there is a dialect that nobody speaks")
	}
}

// TestBook_AsksForDays: the first day comes unasked, the next when it is needed,
// and what the starter cannot open is said and lets no call pass.
func TestBook_AsksForDays(t *testing.T) {
	t.Parallel()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	folder := budget.In(filepath.Join(t.TempDir(), "data"))
	var asked []budget.Day
	done := make(chan struct{})
	start := time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC)
	clock := start
	go func() { // the starter
		defer close(done)
		page, err := folder.Newest(context.Background(), start)
		for {
			d := modelgate.Day{Day: page.Day}
			if err != nil {
				d.Error = err.Error()
			}
			payload, _ := json.Marshal(d)
			if fdpass.SendFile(ours, payload, page.File) != nil {
				return
			}
			if page.File != nil {
				_ = page.File.Close()
			}
			text, _, gone := fdpass.ReceiveFile(ours)
			if gone != nil {
				return
			}
			var ask modelgate.Day
			_ = json.Unmarshal(text, &ask)
			asked = append(asked, ask.Day)
			if len(asked) > 1 {
				page, err = budget.Page{}, os.ErrPermission
				continue
			}
			page, err = folder.Next(context.Background(), ask.Day, start.Add(2*time.Minute))
		}
	}()
	j := &journal{now: func() time.Time { return clock }, out: &strings.Builder{}}
	b, err := newBook(t.Context(), settingsOf(), theirs, j)
	if err != nil {
		t.Fatal(err)
	}
	use := func() error {
		g, err := b.Reserve(t.Context(), 10, 30, 50)
		if err == nil {
			g.Settle(pricing.Usage{Input: 10, Output: 5})
		}
		return err
	}
	if err := use(); err != nil {
		t.Error(err)
	}
	clock = start.Add(2 * time.Minute)
	if err := use(); err != nil {
		t.Error(err)
	}
	clock = start.AddDate(0, 0, 1).Add(2 * time.Minute)
	if err := use(); err == nil || !strings.Contains(err.Error(), "permission") {
		t.Errorf("a day without a record: %v", err)
	}
	b.close()
	_ = theirs.Close()
	<-done
	if len(asked) != 2 || asked[0] != "2026-11-30" || asked[1] != "2026-12-01" {
		t.Errorf("asked for the days after %v", asked)
	}
}

// TestUseOf_SaysWhatWasAskedFor: only what was answered by a model is a call of it.
func TestUseOf_SaysWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[gateway.Endpoint]string{gateway.Generate: "", gateway.Models: bailey.AskedModels, gateway.Count: bailey.AskedCount} {
		if got := useOf(gateway.Entry{Endpoint: endpoint}).Asked; got != want {
			t.Errorf("endpoint %d: %q, want %q", endpoint, got, want)
		}
	}
}
