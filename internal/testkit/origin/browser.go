package origin

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// browserPage makes every kind of connection that a page can, and reports. The
// script from /hold keeps the page from being loaded until that is done.
const browserPage = `<!DOCTYPE html><title>page</title><body>waiting</body><script>
const socket = () => new Promise((done, fail) => {
	const s = new WebSocket("wss://" + location.host + "/socket");
	s.onopen = () => s.send("ping");
	s.onmessage = e => done(e.data);
	s.onerror = () => fail("socket");
});
const event = () => new Promise((done, fail) => {
	const s = new EventSource("/events");
	s.onmessage = e => { s.close(); done(e.data); };
	s.onerror = () => fail("events");
});
(async () => {
	const report = { fetched: await (await fetch("/data", { method: "POST", body: "x".repeat(100000) })).text() };
	report.protocol = performance.getEntriesByType("navigation")[0].nextHopProtocol;
	report.socket = await socket();
	report.event = await event();
	document.body.textContent = "all of it";
	return report;
})().catch(e => ({ error: String(e) })).then(r => fetch("/report", { method: "POST", body: JSON.stringify(r) }));
</script><script src="/hold"></script>`

// BrowserReport is what a page found.
type BrowserReport struct {
	Error    string `json:"error"`
	Fetched  string `json:"fetched"`  // the answer to a request with a body of 100,000 bytes
	Protocol string `json:"protocol"` // by ALPN: h2
	Socket   string `json:"socket"`   // the echo of "ping"
	Event    string `json:"event"`    // the first event of a stream that does not end
}

// Browser serves a page that tries what browsers do: fetch, WebSocket and
// server-sent events. It offers HTTP/3, as most of the web does.
type Browser struct {
	http.Handler

	mu      sync.Mutex
	reports []BrowserReport
	done    chan struct{}
}

// NewBrowser makes the page's server.
func NewBrowser() *Browser {
	b := &Browser{done: make(chan struct{}, 100)}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Alt-Svc", `h3=":443"; ma=86400`)
		_, _ = io.WriteString(w, browserPage)
	})
	mux.HandleFunc("/data", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_ = json.NewEncoder(w).Encode(n)
	})
	mux.HandleFunc("/socket", EchoSocket)
	mux.HandleFunc("/events", Events)
	mux.HandleFunc("/report", func(_ http.ResponseWriter, r *http.Request) {
		var report BrowserReport
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			report.Error = err.Error()
		}
		b.mu.Lock()
		b.reports = append(b.reports, report)
		b.mu.Unlock()
		b.done <- struct{}{}
	})
	mux.HandleFunc("/hold", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		select {
		case <-b.done:
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	})
	b.Handler = mux
	return b
}

// Reports returns what pages have found so far.
func (b *Browser) Reports() []BrowserReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]BrowserReport(nil), b.reports...)
}

// EchoSocket is a WebSocket that sends every message back.
func EchoSocket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(1 << 20)
	for {
		kind, data, err := c.Read(r.Context())
		if err != nil {
			return
		}
		if err := c.Write(r.Context(), kind, data); err != nil {
			return
		}
	}
}

// TellSocket is EchoSocket, but that it answers "tell" with what it is given.
func TellSocket(w http.ResponseWriter, r *http.Request, what string) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	for {
		kind, data, err := c.Read(r.Context())
		if err != nil {
			return
		}
		if string(data) == "tell" {
			data = []byte("it is " + what)
		}
		if err := c.Write(r.Context(), kind, data); err != nil {
			return
		}
	}
}

// Events sends one server-sent event at once and then says nothing until the
// client goes.
func Events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: first\n\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}
