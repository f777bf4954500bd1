package taskapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/peer"
	"github.com/bailey-dev/bailey/internal/task"
)

// Client is task.Service at the other end of a socket. It is safe for
// concurrent use.
type Client struct {
	path  string
	http  http.Client
	hello Hello
}

var _ task.Service = (*Client)(nil)

// errForeign is the cause of a refusal to talk to a socket.
var errForeign = errors.New("the socket belongs to somebody else")

// Connect connects to the service behind a socket that the user or root
// listens on. That there is none is an error for which Absent is true.
func Connect(ctx context.Context, path string) (*Client, error) {
	c := &Client{path: path}
	c.http.Transport = &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) },
		DisableCompression: true, MaxIdleConns: 1, MaxIdleConnsPerHost: 1,
	}
	var err error
	if c.hello, err = c.Hello(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Folders are those that the service said it works on when it was connected to.
func (c *Client) Folders() Folders { return c.hello.Folders }

// Socket is where it listens.
func (c *Client) Socket() string { return c.path }

// dial connects, and looks who listens.
func dial(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errForeign, c.Close()) // unreachable: it was asked for
	}
	if uid, err := peer.UID(u); err != nil || uid != os.Geteuid() && uid != 0 {
		return nil, errors.Join(errForeign, c.Close())
	}
	return c, nil
}

// Absent reports that nobody listens.
func Absent(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}

// Close lets go of the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// send asks. The caller closes the body of what it returns, whose status is
// that of success.
func (c *Client) send(ctx context.Context, method, path string, doc any) (*http.Response, error) {
	var in io.Reader
	if doc != nil {
		b, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://bailey"+path, in) //nolint:gosec // the socket is the host, whatever is asked for
	if err != nil {
		return nil, err
	}
	if doc != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(r) //nolint:gosec // as above
	if err != nil {
		return nil, c.unreached(ctx, err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }() // read only: nothing to lose
	var f failed
	if err := decode(res.Body, maxLine, &f); err != nil {
		return nil, c.garbled(err)
	}
	return nil, f.Error.err()
}

func (c *Client) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errForeign) {
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("the socket %s is another user's", c.path), "remove it, or set XDG_RUNTIME_DIR to a folder of yours")
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // what was asked for is no address that a person knows
	}
	return bailey.WrapError(bailey.Unavailable, "reach the service of tasks", err, "bailey serve --local starts it")
}

func (c *Client) garbled(err error) error {
	return bailey.WrapError(bailey.Unavailable, "read what the service of tasks says", err, "a service of another version of bailey may be running: end it, and start again")
}

// get asks for a document.
func get[T any](ctx context.Context, c *Client, method, path string, doc any) (T, error) {
	var out T
	res, err := c.send(ctx, method, path, doc)
	if err != nil {
		return out, err
	}
	defer func() { _ = res.Body.Close() }() // read only: nothing to lose
	if err := decode(res.Body, maxAnswer, &out); err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		return out, c.garbled(err)
	}
	return out, nil
}

// listen asks, and hands on what is told until the end.
func (c *Client) listen(ctx context.Context, method, path string, doc any, progress func(task.Progress)) (told, error) {
	res, err := c.send(ctx, method, path, doc)
	if err != nil {
		return told{}, err
	}
	defer func() { _ = res.Body.Close() }() // read only: nothing to lose
	in := bufio.NewScanner(res.Body)
	in.Buffer(make([]byte, 0, 64<<10), maxLine)
	for in.Scan() {
		var t told
		if err := strict(in.Bytes(), &t); err != nil {
			return told{}, c.garbled(err)
		}
		switch {
		case t.Progress != nil:
			progress(*t.Progress)
		case t.Error != nil:
			return told{}, t.Error.err()
		default:
			return t, nil
		}
	}
	if ctx.Err() != nil {
		return told{}, ctx.Err()
	}
	return told{}, bailey.WrapError(bailey.Unavailable, "the service of tasks ended", in.Err(), "what was begun goes on when it is started again: bailey task ls")
}

func pathOf(id task.ID, more string) string { return "/v1/tasks/" + url.PathEscape(string(id)) + more }

// Hello says who serves.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	return get[Hello](ctx, c, http.MethodGet, "/v1/hello", nil)
}

// Delegate is task.Service's.
func (c *Client) Delegate(ctx context.Context, r task.Request) (task.Task, error) {
	return get[task.Task](ctx, c, http.MethodPost, "/v1/tasks", r)
}

// Follow is task.Service's.
func (c *Client) Follow(ctx context.Context, id task.ID, progress func(task.Progress)) (task.Task, error) {
	t, err := c.listen(ctx, http.MethodGet, pathOf(id, "/follow"), nil, progress)
	if err == nil && t.Task == nil {
		err = c.garbled(errors.New("no task"))
	}
	if err != nil {
		return task.Task{}, err
	}
	return *t.Task, nil
}

// Get is task.Service's.
func (c *Client) Get(ctx context.Context, id task.ID) (task.Task, error) {
	return get[task.Task](ctx, c, http.MethodGet, pathOf(id, ""), nil)
}

// List is task.Service's.
func (c *Client) List(ctx context.Context) ([]task.Task, error) {
	return get[[]task.Task](ctx, c, http.MethodGet, "/v1/tasks", nil)
}

// Result is task.Service's.
func (c *Client) Result(ctx context.Context, id task.ID, p task.Part, offset int64) (task.Piece, error) {
	return get[task.Piece](ctx, c, http.MethodGet, pathOf(id, "/parts/"+url.PathEscape(string(p))+"?offset="+strconv.FormatInt(offset, 10)), nil)
}

// Cancel is task.Service's.
func (c *Client) Cancel(ctx context.Context, id task.ID) (task.Task, error) {
	return get[task.Task](ctx, c, http.MethodPost, pathOf(id, "/cancel"), nil)
}

// Check is task.Service's.
func (c *Client) Check(ctx context.Context, r task.CheckRequest, progress func(task.Progress)) (task.CheckResult, error) {
	t, err := c.listen(ctx, http.MethodPost, "/v1/checks", r, progress)
	if err == nil && t.Check == nil {
		err = c.garbled(errors.New("no result of the check"))
	}
	if err != nil {
		return task.CheckResult{}, err
	}
	return *t.Check, nil
}

// Models is task.Service's.
func (c *Client) Models(ctx context.Context) ([]task.Model, error) {
	return get[[]task.Model](ctx, c, http.MethodGet, "/v1/models", nil)
}

// Cleanup is task.Service's.
func (c *Client) Cleanup(ctx context.Context, repoPath, branch string) (task.Cleaned, error) {
	return get[task.Cleaned](ctx, c, http.MethodPost, "/v1/cleanup", cleanup{RepoPath: repoPath, Branch: branch})
}

// Forget is task.Service's.
func (c *Client) Forget(ctx context.Context, id task.ID) error {
	_, err := get[struct{}](ctx, c, http.MethodDelete, pathOf(id, ""), nil)
	return err
}
