package run

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/wire"
)

// Bounds of the browser that is lent.
const (
	loginWait    = 5 * time.Minute // for the one callback
	openPause    = 2 * time.Second // between two addresses
	mostOpened   = 30              // addresses of a run
	mostAsked    = 100             // questions of a run that are told of
	mostTries    = 32              // requests to a callback's port that are not it
	callbackWait = 10 * time.Second
	leastPort    = 1024
)

// address is what a sandbox asks to be opened, judged.
type address struct {
	text  string
	host  string
	port  uint16 // of the callback on the loopback; 0: it has none
	path  string
	state string
}

// judgeAddress says what may be opened: an https address, and if it names a
// way back to this machine, one by which a single answer can be told from
// others.
func judgeAddress(text string) (address, error) { //nolint:gocognit // one check after the other
	u, err := url.Parse(text)
	if err != nil || len(text) > wire.MaxAddress || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return address{}, errors.New("it is not an address")
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Opaque != "" {
		return address{}, errors.New("only https addresses are opened")
	}
	if why := notPublic(u.Hostname()); why != "" {
		return address{}, errors.New(why)
	}
	a := address{text: text, host: u.Hostname()}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return address{}, errors.New("its query is malformed")
	}
	back := query["redirect_uri"]
	if len(back) == 0 {
		return a, nil
	}
	to, err := url.Parse(back[0])
	switch {
	case len(back) > 1 || err != nil:
		return address{}, errors.New("it does not say clearly where its answer goes")
	case to.Scheme == "https" && !isLoopback(to.Hostname()):
		return a, nil // the answer comes to the person
	case to.Scheme != "http" || !isLoopback(to.Hostname()) || to.User != nil || to.RawQuery != "" || to.Fragment != "":
		return address{}, errors.New("its answer would go neither to https nor to a plain path of this machine's loopback")
	}
	port, err := strconv.ParseUint(to.Port(), 10, 16)
	if err != nil || port < leastPort {
		return address{}, fmt.Errorf("its answer would go to no port of %d to 65535", leastPort)
	}
	if state := query["state"]; len(state) != 1 || len(state[0]) < 8 {
		return address{}, errors.New("it has no state by which its answer could be told from others")
	}
	a.port, a.path, a.state = uint16(port), to.EscapedPath(), query.Get("state")
	if a.path == "" {
		a.path = "/"
	}
	return a, nil
}

// notPublic says why a host is not one of the internet's by its name, or "". What
// lies on this machine or beside it would be asked with the person's own cookies.
func notPublic(host string) string {
	name, err := policy.NormalizeName(host)
	switch {
	case err != nil:
		return "its host is no name of the internet"
	case policy.IsLocalhost(name) || policy.IsMetadata(name):
		return "its host is this machine's own"
	case !strings.Contains(name, ".") || slices.ContainsFunc(privateNames(), func(suffix string) bool { return strings.HasSuffix(name, suffix) }):
		return "its host is one of this machine's own network"
	}
	return ""
}

// privateNames end names that are given out within a network alone (RFC 6762,
// RFC 8375, and what ICANN reserves for it).
func privateNames() []string {
	return []string{".local", ".internal", ".home.arpa", ".lan", ".home", ".corp", ".intranet", ".private"}
}

// resolveWait bounds the look at where a host is.
const resolveWait = 3 * time.Second

// leadsInside refuses a host whose addresses are not all of the internet. One
// that cannot be found is left to the browser, which cannot find it either.
func leadsInside(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, at := range found {
		if c := policy.Classify(at.Unmap()); c.Special() {
			return fmt.Errorf("its host has %s, %s", c, at)
		}
	}
	return nil
}

func isLoopback(host string) bool {
	return slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, host)
}

// openerFile is the program inside that stands for a browser.
func openerFile() bailey.File {
	return bailey.File{Path: sandbox.OpenPath, Mode: 0o755, Data: []byte("#!/bin/sh\nexec " + sandbox.FirstPath + " " + sandbox.OpenArg + " \"${1:-}\"\n")}
}

// openers are the names under which programs look for it.
func openers() []string {
	return []string{"xdg-open", "x-www-browser", "www-browser", "sensible-browser", "open"}
}

// browserDir is the folder of these names.
const browserDir = "/.bailey/bin"

// lendBrowser lays out what programs inside take for a browser.
func (p *plan) lendBrowser(r *Request) {
	if r.Task != nil || r.Work != nil {
		return
	}
	p.spec.Files = append(p.spec.Files, openerFile())
	p.exec.Env = merge([]string{"BROWSER=" + sandbox.OpenPath}, p.exec.Env)
	if !r.OpenBrowser {
		return
	}
	p.opens = true
	for _, name := range openers() {
		p.spec.Links = append(p.spec.Links, bailey.Link{Path: browserDir + "/" + name, Target: sandbox.OpenPath})
	}
	for i, v := range p.exec.Env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			p.exec.Env[i] = "PATH=" + browserDir + ":" + path
		}
	}
}

// browserLines are what the header says of it.
func (p *plan) browserLines() []string {
	if !p.opens {
		return nil
	}
	return []string{"browser: https addresses that the sandbox asks for are opened in yours (--open-browser), and the answer to a login goes back inside"}
}

// browser is the person's, lent to a sandbox.
type browser struct {
	u      *running
	asked  int
	opened int
	last   time.Time

	mu   sync.Mutex
	flow *login // under way
}

// lendBrowserTo serves the sandbox's questions until the context ends, and
// returns a function that waits for that.
func (u *running) lendBrowserTo(ctx context.Context) (wait func()) {
	if !u.plan.opens {
		return func() {}
	}
	b := &browser{u: u}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := u.wire.Addresses(ctx, func(text string) string { return b.ask(ctx, text) }); err != nil && ctx.Err() == nil {
			u.out.say("the browser is lent no longer: %v", err)
		}
	}()
	return func() { <-done; b.end() }
}

// ask answers one question, in words for the program that asked.
func (b *browser) ask(ctx context.Context, text string) string {
	if b.asked++; b.asked > mostAsked {
		return "no: this sandbox has asked too often\n"
	}
	a, err := judgeAddress(text)
	if err == nil {
		err = b.open(ctx, a)
	}
	if err != nil {
		b.u.out.say("the sandbox asked for your browser, which was refused: %v: %s", err, shortAddress(text))
		return "no: the address was not opened: " + err.Error() + "\n"
	}
	if a.port == 0 {
		return "ok: the address was opened in the person's browser\n"
	}
	return fmt.Sprintf("ok: the address was opened in the person's browser; its answer comes to port %d\n", a.port)
}

// shortAddress is an address as a person is shown it.
func shortAddress(text string) string { return terminal.Sanitize(text[:min(len(text), 2000)]) }

// show tells the person what is about to be opened.
func (b *browser) show(a address) {
	if a.port == 0 {
		b.u.out.say("opened in your browser for the sandbox: %s", shortAddress(a.text))
		return
	}
	b.u.out.say("opened in your browser for the sandbox, whose port %d gets the answer: %s", a.port, shortAddress(a.text))
}

func (b *browser) open(ctx context.Context, a address) error {
	if b.opened >= mostOpened {
		return fmt.Errorf("%d were opened in this run", mostOpened)
	}
	if time.Since(b.last) < openPause {
		return errors.New("one was opened a moment ago")
	}
	program, err := b.program()
	if err == nil {
		err = leadsInside(ctx, a.host)
	}
	if err != nil {
		return err
	}
	if a.port != 0 {
		if err := b.begin(ctx, a); err != nil {
			return err
		}
	}
	b.show(a)
	cmd := exec.Command(program, a.text) //nolint:noctx // the person's browser outlives the run
	cmd.Env, cmd.Dir = config.Pairs(), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		b.end()
		return fmt.Errorf("the browser %s cannot be started", program)
	}
	go func() { _ = cmd.Wait() }() // what it says of itself is of no use
	b.opened++
	b.last = time.Now()
	return nil
}

// program is the person's own browser: what BROWSER names first, or xdg-open.
// It is never one of the workspace, which the sandbox may have written.
func (b *browser) program() (string, error) {
	name := "xdg-open"
	if list, ok := b.u.host.Env("BROWSER"); ok && list != "" {
		name, _, _ = strings.Cut(list, ":")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("there is no browser on this machine: set BROWSER to a program that opens the address it is given")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || !filepath.IsAbs(path) || sandbox.Within(path, b.u.plan.workspace) || sandbox.Within(real, b.u.plan.workspace) {
		return "", fmt.Errorf("BROWSER is %s, which the sandbox may have written", path)
	}
	return path, nil
}

// login is one flow: a port that waits for one answer.
type login struct {
	published

	want  address
	end   context.CancelFunc
	tries int
	mu    sync.Mutex
	taken bool
}

// begin binds the callback's port. A flow that is under way gives way.
func (b *browser) begin(ctx context.Context, a address) error {
	b.end()
	l := &login{want: a, published: published{host: a.port, port: a.port}}
	if err := l.listen(ctx); err != nil {
		return fmt.Errorf("port %d of this machine, where its answer goes, is taken", a.port)
	}
	ctx, l.end = context.WithTimeout(ctx, loginWait)
	context.AfterFunc(ctx, l.close)
	for _, at := range l.listeners {
		go b.await(ctx, l, at)
	}
	b.mu.Lock()
	b.flow = l
	b.mu.Unlock()
	return nil
}

// end closes what is under way.
func (b *browser) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flow != nil {
		b.flow.end()
		b.flow.close()
		b.flow = nil
	}
}

// await takes requests, one at a time, until one is the answer.
func (b *browser) await(ctx context.Context, l *login, at net.Listener) {
	for {
		conn, err := at.Accept()
		if err != nil {
			return
		}
		b.callback(ctx, l, conn)
		_ = conn.Close() // everything was said
		l.mu.Lock()
		l.tries++
		over := l.taken || l.tries >= mostTries
		l.mu.Unlock()
		if over {
			l.end()
			l.close()
			return
		}
	}
}

// callback reads one request, and passes it on if it is the answer. The browser
// gets a page of bailey's: what the sandbox says would be a page of this
// machine's loopback, among the person's own.
func (b *browser) callback(ctx context.Context, l *login, conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(callbackWait))
	r, err := http.ReadRequest(bufio.NewReader(io.LimitReader(conn, 64<<10)))
	if err != nil {
		return
	}
	if why := l.refuses(r); why != "" {
		page(conn, http.StatusForbidden, "This is not the answer that was waited for: "+why+".")
		return
	}
	l.mu.Lock()
	first := !l.taken
	l.taken = true
	l.mu.Unlock()
	if !first {
		page(conn, http.StatusForbidden, "The answer came already.")
		return
	}
	_ = conn.SetDeadline(time.Now().Add(2 * callbackWait))
	status, err := b.deliver(ctx, l.port, r.RequestURI)
	switch {
	case err != nil:
		b.u.out.say("the answer to a login came, and could not be delivered: nothing listens at port %d inside", l.port)
		page(conn, http.StatusBadGateway, "Nothing listens for the answer inside the sandbox.")
	case status >= http.StatusBadRequest:
		page(conn, http.StatusOK, fmt.Sprintf("The answer was delivered to the sandbox, whose program refused it with status %d.", status))
	default:
		b.u.out.say("the answer to a login was delivered to port %d inside; the port of this machine is closed", l.port)
		page(conn, http.StatusOK, "The answer was delivered to the sandbox. You can close this page.")
	}
}

// refuses says why a request is not the answer, or "".
func (l *login) refuses(r *http.Request) string {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil || !isLoopback(host) || port != strconv.Itoa(int(l.port)) {
		return "it names another host"
	}
	if r.Method != http.MethodGet || r.ContentLength > 0 || len(r.TransferEncoding) > 0 {
		return "it is not a plain GET"
	}
	if r.URL.EscapedPath() != l.want.path || r.URL.Host != "" {
		return "it is for another path"
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	state := query["state"]
	if err != nil || len(state) != 1 || subtle.ConstantTimeCompare([]byte(state[0]), []byte(l.want.state)) != 1 {
		return "its state is another one"
	}
	return ""
}

// deliver makes the request inside, with nothing of the browser's but its
// target, and returns the status of the answer.
func (b *browser) deliver(ctx context.Context, port uint16, target string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callbackWait)
	defer cancel()
	ours, theirs := net.Pipe()
	var dialed sync.WaitGroup
	dialed.Go(func() {
		_ = b.u.wire.Dial(ctx, port, halfPipe{theirs}) // its end says that there is no answer
		_ = theirs.Close()                             // it is, but for an error
	})
	defer dialed.Wait()
	defer func() { _ = ours.Close() }()
	_, err := fmt.Fprintf(ours, "GET %s HTTP/1.1\r\nHost: localhost:%d\r\nUser-Agent: bailey\r\nConnection: close\r\n\r\n", target, port)
	if err != nil {
		return 0, err
	}
	r, err := http.ReadResponse(bufio.NewReader(io.LimitReader(ours, 64<<10)), nil)
	if err != nil {
		return 0, err
	}
	return r.StatusCode, r.Body.Close()
}

// halfPipe is an end of a pipe whose directions end together.
type halfPipe struct{ net.Conn }

// CloseWrite ends both.
func (h halfPipe) CloseWrite() error { return h.Close() }

// page answers a browser.
func page(w io.Writer, status int, text string) {
	body := "<!doctype html><meta charset=utf-8><title>bailey</title><p>" + text + "\n"
	_, _ = fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: text/html; charset=utf-8\r\nContent-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), len(body), body) // whoever is gone needs none
}
