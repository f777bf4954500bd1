// Command streams talks to one host in the ways that programs do which keep a
// connection for long, and prints a line for each: its name, then "ok" or what
// went wrong. Its servers are in spec/streams_test.go. It is one static program
// that needs no other.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// patience bounds one way. What is refused is refused at once.
const patience = 10 * time.Second

func main() {
	host := os.Args[1]
	for _, way := range []struct {
		name string
		try  func(ctx context.Context, host string) error
	}{
		{"websocket", func(ctx context.Context, host string) error { return socket(ctx, "ws://"+host+"/socket") }},
		{"websocket in TLS", func(ctx context.Context, host string) error { return socket(ctx, "wss://"+host+"/socket") }},
		{"events", func(ctx context.Context, host string) error { return events(ctx, "http://"+host+"/events") }},
		{"events in TLS", func(ctx context.Context, host string) error { return events(ctx, "https://"+host+"/events") }},
		{"gRPC", call},
		{"TLS 1.2", func(ctx context.Context, host string) error { return version(ctx, host, tls.VersionTLS12) }},
		{"TLS 1.3", func(ctx context.Context, host string) error { return version(ctx, host, tls.VersionTLS13) }},
		{"chunks both ways", func(ctx context.Context, host string) error { return chunks(ctx, "http://"+host+"/echo") }},
		{"chunks both ways in TLS", func(ctx context.Context, host string) error { return chunks(ctx, "https://"+host+"/echo") }},
		{"HTTP/1.0", oldHTTP},
		{"100-continue", continued},
		{"417 to 100-continue", notContinued},
		{"half-close by the client", clientCloses},
		{"half-close by the server", serverCloses},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		said := "ok"
		if err := way.try(ctx, host); err != nil {
			said = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		cancel()
		fmt.Printf("%s: %s\n", way.name, said)
	}
}

func socket(ctx context.Context, url string) error {
	c, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(1 << 20)
	for _, size := range []int{1, 100, 100_000} {
		sent := strings.Repeat("x", size)
		if err := c.Write(ctx, websocket.MessageText, []byte(sent)); err != nil {
			return err
		}
		if _, got, err := c.Read(ctx); err != nil || string(got) != sent {
			return fmt.Errorf("%d of %d bytes came back: %w", len(got), size, err)
		}
	}
	return c.Close(websocket.StatusNormalClosure, "")
}

// events wants the first event of a stream that goes on.
func events(ctx context.Context, url string) error {
	r, err := get(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	line, err := bufio.NewReader(r.Body).ReadString('\n')
	if line != "data: first\n" {
		return fmt.Errorf("the first event is %q: %w", line, err)
	}
	return nil
}

func get(ctx context.Context, method, url string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(req)
	if err == nil && r.StatusCode != http.StatusOK {
		_ = r.Body.Close()
		return nil, errors.New(r.Status)
	}
	return r, err
}

// call makes a call, one that fails, which trailers say, and one that streams.
func call(ctx context.Context, host string) error {
	conn, err := grpc.NewClient(host+":443", grpc.WithTransportCredentials(credentials.NewTLS(nil)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	c := health.NewHealthClient(conn)
	if r, err := c.Check(ctx, &health.HealthCheckRequest{}); err != nil || r.GetStatus() != health.HealthCheckResponse_SERVING {
		return fmt.Errorf("check: %v: %w", r, err)
	}
	if _, err := c.Check(ctx, &health.HealthCheckRequest{Service: "none"}); status.Code(err) != codes.NotFound {
		return fmt.Errorf("check of a service that is not there: %w", err)
	}
	w, err := c.Watch(ctx, &health.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if r, err := w.Recv(); err != nil || r.GetStatus() != health.HealthCheckResponse_SERVING {
		return fmt.Errorf("watch: %v: %w", r, err)
	}
	return nil
}

func version(ctx context.Context, host string, v uint16) error {
	d := tls.Dialer{Config: &tls.Config{MinVersion: v, MaxVersion: v}}
	c, err := d.DialContext(ctx, "tcp", host+":443")
	if err != nil {
		return err
	}
	return c.Close()
}

// chunks sends pieces of a body and wants each back before it sends the next.
func chunks(ctx context.Context, url string) error {
	out, in := io.Pipe()
	first := make(chan error, 1)
	go func() { _, err := io.WriteString(in, "piece 0\n"); first <- err }()
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}} // HTTP/1.1 alone
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, out)
	if err != nil {
		return err
	}
	r, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	if err := <-first; err != nil || r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w", r.Status, err)
	}
	lines := bufio.NewReader(r.Body)
	for i := range 5 {
		want := fmt.Sprintf("piece %d\n", i)
		if line, err := lines.ReadString('\n'); line != want {
			return fmt.Errorf("%q came back for %q: %w", line, want, err)
		}
		if i == 4 {
			break
		}
		if _, err := fmt.Fprintf(in, "piece %d\n", i+1); err != nil {
			return err
		}
	}
	_ = in.Close()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		return fmt.Errorf("after the end: %q: %w", rest, err)
	}
	return nil
}

func dial(ctx context.Context, address string) (*net.TCPConn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp4", address)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)
	return c.(*net.TCPConn), nil
}

func oldHTTP(ctx context.Context, host string) error {
	c, err := dial(ctx, host+":80")
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "GET /hello HTTP/1.0\r\nHost: %s\r\n\r\n", host); err != nil {
		return err
	}
	b, err := io.ReadAll(c) // the end of the connection is that of the answer
	if err != nil || !strings.Contains(string(b), " 200 OK\r\n") || !strings.HasSuffix(string(b), "hello") || strings.Contains(string(b), "chunked") {
		return fmt.Errorf("%q: %w", b, err)
	}
	return nil
}

// expect sends the head of a request and returns the status line that comes
// before any of its body was sent.
func expect(ctx context.Context, host, path string) (*net.TCPConn, *bufio.Reader, string, error) {
	c, err := dial(ctx, host+":80")
	if err != nil {
		return nil, nil, "", err
	}
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n", path, host); err != nil {
		return nil, nil, "", err
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	return c, r, strings.TrimSpace(line), err
}

func continued(ctx context.Context, host string) error {
	c, r, line, err := expect(ctx, host, "/echo")
	if err != nil || line != "HTTP/1.1 100 Continue" {
		return fmt.Errorf("before the body: %q: %w", line, err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "body\n"); err != nil {
		return err
	}
	b, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(b), "200 OK") || !strings.Contains(string(b), "body\n") {
		return fmt.Errorf("%q: %w", b, err)
	}
	return nil
}

func notContinued(ctx context.Context, host string) error {
	c, _, line, err := expect(ctx, host, "/refusing")
	if err != nil || line != "HTTP/1.1 417 Expectation Failed" {
		return fmt.Errorf("before the body: %q: %w", line, err)
	}
	return c.Close()
}

// What follows is no text: a first line that does not end could become HTTP.

// clientCloses says that it has no more and wants the answer that comes then.
func clientCloses(ctx context.Context, host string) error {
	c, err := dial(ctx, host+":9001")
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, strings.Repeat("\x01", 300_000)); err != nil {
		return err
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "300000 bytes" {
		return fmt.Errorf("%q: %w", b, err)
	}
	return nil
}

// serverCloses sends more after the server has said that it has no more. That
// it arrived is the server's to say, on another connection.
func serverCloses(ctx context.Context, host string) error {
	c, err := dial(ctx, host+":9002")
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "\x01\x02\x03\x04\x05"); err != nil {
		return err
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "no more" {
		return fmt.Errorf("%q: %w", b, err)
	}
	if _, err := io.WriteString(c, strings.Repeat("x", 300_000)); err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	r, err := get(ctx, http.MethodGet, "http://"+host+"/got", nil)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	if b, err := io.ReadAll(r.Body); err != nil || string(b) != "300005 bytes" {
		return fmt.Errorf("the server got %q: %w", b, err)
	}
	return nil
}
