package taskapi

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/peer"
	"github.com/bailey-dev/bailey/internal/task"
)

// How long a peer may take to say what it wants, and the next thing.
const (
	headTime = 10 * time.Second
	idleTime = 2 * time.Minute
	maxHead  = 16 << 10
)

// Config is what a Server needs.
type Config struct {
	Service task.Service
	UID     int              // of the user who is answered; root is too
	Version string           // of bailey
	Folders Folders          // that the service works on
	Clients func(number int) // told how many are connected, at each change; must not block; may be nil

	Warnings []string // of Hello
}

// Server answers on a Unix socket.
type Server struct {
	cfg  Config
	http http.Server

	mu      sync.Mutex
	clients map[net.Conn]struct{}
}

// NewServer makes a server.
func NewServer(cfg Config) *Server {
	s := &Server{cfg: cfg, clients: make(map[net.Conn]struct{})}
	s.http = http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead,
		ConnState: s.changed, ErrorLog: log.New(discard{}, "", 0),
	}
	return s
}

type discard struct{}

// Write forgets what a peer did wrong.
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Serve answers those that connect, until Close.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(&ours{Listener: l, uid: s.cfg.UID})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close ends all connections.
func (s *Server) Close() error { return s.http.Close() }

// ours lets only those through that the socket is for.
type ours struct {
	net.Listener
	uid int
}

// Accept returns the next connection of the user's, or of root's.
func (o *ours) Accept() (net.Conn, error) {
	for {
		c, err := o.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if u, ok := c.(*net.UnixConn); ok {
			if uid, err := peer.UID(u); err == nil && (uid == o.uid || uid == 0) {
				return c, nil
			}
		}
		_ = c.Close() // it is told nothing
	}
}

func (s *Server) changed(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.clients[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(s.clients, c)
	case http.StateActive, http.StateIdle:
		return
	}
	if s.cfg.Clients != nil {
		s.cfg.Clients(len(s.clients))
	}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) (any, error){
		"GET /v1/hello":                   s.hello,
		"POST /v1/tasks":                  s.delegate,
		"GET /v1/tasks":                   s.list,
		"GET /v1/tasks/{id}":              s.get,
		"DELETE /v1/tasks/{id}":           s.forget,
		"POST /v1/tasks/{id}/cancel":      s.cancel,
		"GET /v1/tasks/{id}/parts/{part}": s.part,
		"GET /v1/models":                  s.models,
		"POST /v1/cleanup":                s.cleanup,
	} {
		mux.HandleFunc(pattern, answered(h))
	}
	mux.HandleFunc("GET /v1/tasks/{id}/follow", s.follow)
	mux.HandleFunc("POST /v1/checks", s.check)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, bailey.NewError(bailey.NotFound, "this service does not know that", "a service of another version of bailey may be running: end it, and start again"))
	})
	return mux
}

// answered writes what a handler returns.
func answered(h func(http.ResponseWriter, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := h(w, r)
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the peer may be gone
	}
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(kinds()[bailey.KindOf(err)])
	_ = json.NewEncoder(w).Encode(failed{faultOf(err)}) // the peer may be gone
}

// body reads the document that a request holds.
func body(r *http.Request, to any) error {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return bailey.NewError(bailey.Invalid, "the request is not JSON", "")
	}
	if err := decode(r.Body, maxRequest, to); err != nil {
		return bailey.WrapError(bailey.Invalid, "read the request", err, "")
	}
	return nil
}

func (s *Server) hello(http.ResponseWriter, *http.Request) (any, error) {
	return Hello{Version: s.cfg.Version, PID: os.Getpid(), Folders: s.cfg.Folders, Warnings: s.cfg.Warnings}, nil
}

func (s *Server) delegate(_ http.ResponseWriter, r *http.Request) (any, error) {
	var req task.Request
	if err := body(r, &req); err != nil {
		return nil, err
	}
	return s.cfg.Service.Delegate(r.Context(), req)
}

func (s *Server) list(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.cfg.Service.List(r.Context())
}

// idOf lets through what can be an id.
func idOf(r *http.Request) (task.ID, error) {
	id := task.ID(r.PathValue("id"))
	if !id.Valid() {
		return "", bailey.NewError(bailey.NotFound, "there is no such task: that is no id", "bailey task ls lists them")
	}
	return id, nil
}

func (s *Server) get(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	return s.cfg.Service.Get(r.Context(), id)
}

func (s *Server) forget(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.cfg.Service.Forget(r.Context(), id)
}

func (s *Server) cancel(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	return s.cfg.Service.Cancel(r.Context(), id)
}

func (s *Server) part(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	var offset int64
	if o := r.URL.Query().Get("offset"); o != "" {
		if offset, err = strconv.ParseInt(o, 10, 64); err != nil {
			return nil, bailey.NewError(bailey.Invalid, "the offset is no number", "")
		}
	}
	return s.cfg.Service.Result(r.Context(), id, task.Part(r.PathValue("part")), offset)
}

func (s *Server) models(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.cfg.Service.Models(r.Context())
}

func (s *Server) cleanup(_ http.ResponseWriter, r *http.Request) (any, error) {
	var c cleanup
	if err := body(r, &c); err != nil {
		return nil, err
	}
	return s.cfg.Service.Cleanup(r.Context(), c.RepoPath, c.Branch)
}

// teller writes lines, each at once.
type teller struct {
	mu sync.Mutex
	w  http.ResponseWriter
}

func newTeller(w http.ResponseWriter) *teller {
	w.Header().Set("Content-Type", "application/jsonl")
	w.WriteHeader(http.StatusOK)
	return &teller{w: w}
}

func (t *teller) tell(v told) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if json.NewEncoder(t.w).Encode(v) == nil {
		_ = http.NewResponseController(t.w).Flush() // the peer may be gone: the context says so
	}
}

func (t *teller) fail(err error) {
	f := faultOf(err)
	t.tell(told{Error: &f})
}

func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	id, err := idOf(r)
	if err == nil {
		_, err = s.cfg.Service.Get(r.Context(), id)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	t := newTeller(w)
	got, err := s.cfg.Service.Follow(r.Context(), id, func(p task.Progress) { t.tell(told{Progress: &p}) })
	if err != nil {
		t.fail(err)
		return
	}
	t.tell(told{Task: &got})
}

func (s *Server) check(w http.ResponseWriter, r *http.Request) {
	var req task.CheckRequest
	if err := body(r, &req); err != nil {
		refuse(w, err)
		return
	}
	t := newTeller(w)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	got, err := s.cfg.Service.Check(ctx, req, func(p task.Progress) { t.tell(told{Progress: &p}) })
	if err != nil {
		t.fail(err)
		return
	}
	t.tell(told{Check: &got})
}
