package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/peer"
)

const (
	suffix      = ".sock"
	answerAfter = 2 * time.Second // how long a holder may take to answer a question
	maxLine     = 64 << 10
	maxCommand  = 4 << 10 // bytes of a command line that an answer holds
)

// reserved is the name that the socket of the service for tasks has in the same
// folder (internal/launcher): no sandbox's.
const reserved = "serve"

// Op is what is asked of the holder of a sandbox.
type Op string

// The operations.
const (
	Status Op = "status" // answered with one Info
	Stop   Op = "stop"   // answered with one Info when the end has begun
	Exec   Op = "exec"   // after an empty answer the connection carries a session
	Events Op = "events" // after an empty answer the connection carries records of decisions, one a line
	Why    Op = "why"    // a Question is answered with one Answer
	Net    Op = "net"    // a NetRequest is answered with one NetAnswer
)

type request struct {
	Op       Op          `json:"op"`
	Question *Question   `json:"question,omitempty"` // of Why
	Net      *NetRequest `json:"net,omitempty"`      // of Net
}

type answer struct {
	Info   *Info      `json:"info,omitempty"`
	Answer *Answer    `json:"answer,omitempty"`
	Net    *NetAnswer `json:"net,omitempty"`
	Sample *Sample    `json:"sample,omitempty"`
	Error  string     `json:"error,omitempty"`
	Hint   string     `json:"hint,omitempty"` // to the error
}

// Question asks what would be decided about a connection: to a name, or to an
// address where that is empty.
type Question struct {
	Protocol string     `json:"protocol"`
	Host     string     `json:"host"`
	Addr     netip.Addr `json:"addr,omitzero"`
	Port     uint16     `json:"port"`
	Method   string     `json:"method"`
	Path     string     `json:"path"`
}

// Answer is the decision, and the mode by which it holds.
type Answer struct {
	Verdict string         `json:"verdict"`
	Rule    string         `json:"rule"`
	Reason  string         `json:"reason"`
	Detail  string         `json:"detail"`
	Mode    bailey.NetMode `json:"mode"`
}

// Info is what `bailey ps` shows of one sandbox.
type Info struct {
	Name      string           `json:"name"`
	ID        bailey.SandboxID `json:"id"`
	PID       int              `json:"pid"` // of the bailey process that holds it
	Net       bailey.NetMode   `json:"net"`
	DNS       bailey.DNSMode   `json:"dns"`
	Runtime   string           `json:"runtime"`
	Started   time.Time        `json:"started"`
	Workspace string           `json:"workspace"`
	Command   []string         `json:"command"` // a long one is cut, which "…" says
	Status    string           `json:"status"`  // creating, running, stopping, or NotAnswering
	Helper    int              `json:"helper"`  // pid of the sandbox's helper, for doctor
	Mounts    []Mount          `json:"mounts,omitempty"`
	Home      string           `json:"home,omitempty"`     // the name of the one that is kept
	Loosened  []string         `json:"loosened,omitempty"` // flags that make the sandbox hold less
	Shown     []string         `json:"shown,omitempty"`    // patterns of hidden files that it sees
	Published []Published      `json:"published,omitempty"`
	Opens     bool             `json:"opens,omitempty"` // the person's browser is lent

	Detached bool `json:"detached,omitempty"` // it runs in the background
	TTY      bool `json:"tty,omitempty"`      // its command has a terminal
	Attached int  `json:"attached,omitempty"` // how many are attached to that
}

// Mount is something of the host that a sandbox sees beside its workspace.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	Writable bool   `json:"writable"`
}

// NotAnswering is the status of a sandbox whose holder is there but does not
// answer: it may be stopped (Ctrl-Z). Of the rest of its Info its name is known
// then and, unless it is 0, the holder's pid.
const NotAnswering = "not answering"

// Handler is what the holder of a sandbox does when asked.
type Handler interface {
	Info() Info
	Stop()
	Exec(conn net.Conn) // returns when the connection is done with
	Network
	Seats
}

// Network is the part of a Handler that is about the network.
type Network interface {
	Events(conn net.Conn) // returns when the connection is done with
	Why(q Question) Answer
	Net(r NetRequest) (NetAnswer, error)
}

// Server answers for one sandbox.
type Server struct {
	listener *net.UnixListener
	uid      int
}

// prepare makes the runtime folder: 0700, the caller's own.
func prepare(dir string, uid int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return bailey.WrapError(bailey.Unavailable, "make the runtime folder", err, "set XDG_RUNTIME_DIR to a folder of yours")
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "look at the runtime folder", err, "")
	}
	if !fi.IsDir() || fi.Mode().Perm()&0o077 != 0 || ownerOf(fi) != uid {
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("runtime folder %s is not a private folder of user %d", dir, uid),
			"remove it, or set XDG_RUNTIME_DIR to a folder of yours")
	}
	return nil
}

// Path is where the socket of the named sandbox is.
func Path(dir, name string) string { return filepath.Join(dir, name+suffix) }

// Listen claims the name. A socket whose holder is gone is taken over.
func Listen(ctx context.Context, dir, name string, uid int) (*Server, error) {
	if err := checkPath(Path(dir, name)); err != nil {
		return nil, err
	}
	if name == reserved {
		return nil, bailey.NewError(bailey.Conflict, fmt.Sprintf("the name %q is that of bailey's own service", name), "choose another --name")
	}
	if err := prepare(dir, uid); err != nil {
		return nil, err
	}
	gone := abandoned(ctx, dir)
	unlock, err := lock(ctx, dir)
	if err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "lock the runtime folder "+dir, err, "another bailey that starts just now may be stopped: continue or kill it")
	}
	defer unlock()
	sweep(ctx, gone)
	path := Path(dir, name)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if isInUse(err) {
		return nil, bailey.NewError(bailey.Conflict, fmt.Sprintf("a sandbox named %q is running", name), "choose another --name, or bailey stop "+name)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return &Server{listener: l, uid: uid}, nil
}

// Serve answers until Close. It is given the handler once there is one.
func (s *Server) Serve(h Handler) {
	for {
		c, err := s.listener.AcceptUnix()
		if err != nil {
			return
		}
		go s.handle(c, h)
	}
}

func (s *Server) handle(c *net.UnixConn, h Handler) {
	defer c.Close() //nolint:errcheck // the peer is done with it
	if uid, err := peer.UID(c); err != nil || (uid != s.uid && uid != 0) {
		return
	}
	req, err := readRequest(c)
	if err != nil {
		return
	}
	switch req.Op {
	case Status:
		_ = reply(c, about(h))
	case Stop:
		if peer.Gone(c) { // it gave up while this process was stopped, and said so
			return
		}
		h.Stop()
		_ = reply(c, about(h))
	case Exec:
		if reply(c, answer{}) == nil {
			h.Exec(c)
		}
	case Events:
		if reply(c, answer{}) == nil {
			h.Events(c)
		}
	case Why:
		if req.Question == nil {
			_ = reply(c, answer{Error: "no question"})
			return
		}
		a := h.Why(*req.Question)
		_ = reply(c, answer{Answer: &a})
	case Net:
		_ = reply(c, answerNet(h, req.Net))
	case Attach:
		s.seat(c, h)
	case Stats:
		sample := h.Sample()
		_ = reply(c, answer{Sample: &sample})
	default:
		_ = reply(c, answer{Error: fmt.Sprintf("unknown operation %q", req.Op)})
	}
}

// about is an answer that fits into maxLine, whatever the command's length.
func about(h Handler) answer {
	info := h.Info()
	room := maxCommand
	for i, arg := range info.Command {
		if room -= len(arg) + 1; room < 0 {
			kept := strings.ToValidUTF8(arg[:max(0, len(arg)+room)], "")
			info.Command = append(slices.Clone(info.Command[:i]), kept+"…")
			break
		}
	}
	return answer{Info: &info}
}

// readRequest reads one line without reading past it: what follows belongs to
// the session.
func readRequest(c net.Conn) (request, error) {
	var r request
	line, err := readLine(c)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

func readLine(r io.Reader) ([]byte, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < maxLine {
		if _, err := io.ReadFull(r, one); err != nil {
			return nil, err
		}
		if one[0] == '\n' {
			return line, nil
		}
		line = append(line, one[0])
	}
	return nil, errors.New("line too long")
}

func reply(c net.Conn, a answer) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = c.Write(append(b, '\n'))
	return err
}

// Close lets go of the name: it removes the socket, then closes it. The other
// way round it could be a successor's.
func (s *Server) Close() error { return s.listener.Close() }

// Ask sends one operation to the named sandbox and returns its answer. For
// Exec and Events the connection is returned open, ready for what follows. A
// holder that does not answer in time is an error and an Info with the status
// NotAnswering; it does nothing of what it was asked when it goes on.
func Ask(ctx context.Context, dir, name string, op Op) (Info, net.Conn, error) {
	a, c, err := put(ctx, dir, name, request{Op: op})
	var info Info
	if a.Info != nil {
		info = *a.Info
	}
	return info, c, err
}

// AskWhy asks the named sandbox what would be decided about a connection.
func AskWhy(ctx context.Context, dir, name string, q Question) (Answer, error) {
	a, _, err := put(ctx, dir, name, request{Op: Why, Question: &q})
	if err == nil && a.Answer == nil {
		err = fmt.Errorf("ask sandbox %s: no answer", name)
	}
	if err != nil {
		return Answer{}, err
	}
	return *a.Answer, nil
}

// put puts a request to the named sandbox.
func put(ctx context.Context, dir, name string, r request) (answer, net.Conn, error) {
	if !bailey.ValidSandboxName(name) || name == reserved { // a path to another folder, say
		return answer{}, nil, notRunning(name)
	}
	c, err := dial(ctx, Path(dir, name))
	if isGone(err) {
		return answer{}, nil, notRunning(name)
	}
	if isSilent(err) {
		return silent(name, 0)
	}
	if err != nil {
		return answer{}, nil, bailey.WrapError(bailey.Unavailable, fmt.Sprintf("sandbox %q cannot be reached", name), err, "")
	}
	pid, _ := peer.PID(c) // or 0
	a, err := ask(c, r, r.patience())
	if err != nil || r.Op != Exec && r.Op != Events && r.Op != Attach {
		err = errors.Join(err, c.Close())
		c = nil
	}
	if isSilent(err) {
		return silent(name, pid)
	}
	if err != nil {
		return answer{}, nil, fmt.Errorf("ask sandbox %s: %w", name, err)
	}
	if c == nil { // and no interface that holds a nil
		return a, nil, nil
	}
	return a, c, nil
}

// silent is the answer of a holder that gives none.
func silent(name string, pid int) (answer, net.Conn, error) {
	hint := "the bailey that holds it may be stopped: fg in its shell lets it go on"
	if pid > 0 {
		hint = fmt.Sprintf("the bailey that holds it, process %d, may be stopped: kill -CONT %d lets it go on, kill -9 %d ends it with everything in it", pid, pid, pid)
	}
	return answer{Info: &Info{Name: name, PID: pid, Status: NotAnswering}}, nil,
		bailey.NewError(bailey.Unavailable, fmt.Sprintf("sandbox %q does not answer", name), hint)
}

func notRunning(name string) error {
	return bailey.NewError(bailey.NotFound, fmt.Sprintf("no sandbox named %q is running", name), "bailey ps lists those that are; with --all also what has ended")
}

func ask(c *net.UnixConn, r request, patience time.Duration) (answer, error) {
	var a answer
	if uid, err := peer.UID(c); err != nil || (uid != os.Getuid() && uid != 0 && os.Getuid() != 0) {
		return a, errors.New("the socket belongs to somebody else")
	}
	b, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	if _, err := c.Write(append(b, '\n')); err != nil {
		return a, err
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil { //nolint:forbidigo // of the kernel's
		return a, err
	}
	line, err := readLine(c)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, err
	}
	if a.Error != "" && a.Hint != "" {
		return a, bailey.NewError(bailey.Invalid, a.Error, a.Hint)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, c.SetReadDeadline(time.Time{})
}

// List returns the sandboxes of a runtime folder, oldest first; those that do
// not answer come before them.
func List(ctx context.Context, dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		infos []Info
	)
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || name == reserved {
			continue
		}
		wg.Go(func() {
			info, _, err := Ask(ctx, dir, name, Status)
			if err != nil && info.Status != NotAnswering {
				return // it is gone, or no sandbox of ours
			}
			mu.Lock()
			defer mu.Unlock()
			infos = append(infos, info)
		})
	}
	wg.Wait()
	slices.SortFunc(infos, func(a, b Info) int { return a.Started.Compare(b.Started) })
	return infos, nil
}

// abandoned returns the sockets that look as if nobody held them. It asks all
// of them, which takes its time where there are many, and so is not for who has
// the lock: of a hundred that start at once the last waits for all others.
func abandoned(ctx context.Context, dir string) (paths []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasSuffix(path, suffix) && isAbandoned(ctx, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func isAbandoned(ctx context.Context, path string) bool {
	c, err := dial(ctx, path)
	if err != nil {
		return isGone(err)
	}
	_ = c.Close()
	return false
}

// sweep removes, of what looked abandoned, the sockets of holders that were
// killed together with their watchdogs. It wants the lock: no other socket is
// bound and not yet listened on then.
func sweep(ctx context.Context, paths []string) {
	for _, path := range paths {
		if isAbandoned(ctx, path) {
			_ = os.Remove(path)
		}
	}
}

func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	d := net.Dialer{Timeout: answerAfter}
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a unix socket"), c.Close())
	}
	return u, nil
}
