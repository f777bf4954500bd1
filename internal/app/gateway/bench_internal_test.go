package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/modelgate"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/wire"
)

const (
	benchToken = "bly-0123456789abcdef"
	benchWhole = `{"id":"m","type":"message","role":"assistant","model":"real-1","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":200,"output_tokens":30}}`
	benchFirst = "event: message_start\ndata: " + `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"real-1","content":[],"usage":{"input_tokens":200,"output_tokens":1}}}` + "\n\n"
	benchDelta = "event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"the error of each call "}}` + "\n\n"
	benchEnd   = "event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":30}}` + "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// benchProvider answers at once; streams wait for hold, where there is one.
func benchProvider(hold <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, benchWhole)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, benchFirst)
		_ = http.NewResponseController(w).Flush()
		if hold != nil {
			<-hold
		}
		_, _ = io.WriteString(w, strings.Repeat(benchDelta, 10)+benchEnd)
	})
}

// benchRole is the whole role in this process, but for what takes privileges
// away, before a provider.
func benchRole(b *testing.B, provider http.Handler) *wire.Caller {
	b.Helper()
	upstreamServer := httptest.NewServer(provider)
	b.Cleanup(upstreamServer.Close)
	host, inside, err := wire.Pair()
	if err != nil {
		b.Fatal(err)
	}
	days, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		b.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(days[0]), "days"), os.NewFile(uintptr(days[1]), "days")
	page, err := budget.In(b.TempDir()).Newest(b.Context(), time.Now())
	if err != nil {
		b.Fatal(err)
	}
	day, _ := json.Marshal(modelgate.Day{Day: page.Day})
	if err := fdpass.SendFile(ours, day, page.File); err != nil {
		b.Fatal(err)
	}
	_ = page.File.Close()
	keys, keysIn, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := json.NewEncoder(keysIn).Encode(modelgate.Key{Value: []byte("sk-ant-0123456789-abcdefghijklmnopqrstuvwxyz")}); err != nil {
		b.Fatal(err)
	}
	sum := sha256.Sum256([]byte(benchToken))
	limit, _ := budget.ParseLimit("1000000M")
	s := modelgate.Settings{
		Sandbox: "sbx_0123456789abcdef", Token: sum[:], Limits: budget.Limits{Run: limit},
		Pin:      gateway.Pin{ID: "small", Name: "real-1", Dialect: gateway.Anthropic},
		Provider: models.Provider{Name: "local", Kind: models.Anthropic, Base: upstreamServer.URL, Secret: "key"},
	}
	j := &journal{now: time.Now, out: io.Discard, sandbox: s.Sandbox, model: s.Pin.ID}
	up, err := toProvider(s, nil, keys, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	caller, err := wire.NewCaller(inside)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := answer(context.WithoutCancel(b.Context()), s, up, j, files{wire: host, days: theirs}); err != nil {
			b.Error(err)
		}
	}()
	b.Cleanup(func() {
		_ = inside.Close()
		<-done
		_, _, _ = ours.Close(), keysIn.Close(), keys.Close()
	})
	return caller
}

// benchRequest is the bytes of a call, with a body of about so many.
func benchRequest(size int, stream bool) []byte {
	const text = "   12\tif err := run(ctx, \"all\"); err != nil && n > 0 {\n   13\t\treturn fmt.Errorf(\"run <%s>: %w\", name, err)\n   14\t}\n"
	var messages []any
	for left := size - 200; left > 0; left -= 4000 {
		messages = append(messages, map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "text", "text": strings.Repeat(text, 50)[:min(left, 4000)*9/10]},
		}})
	}
	body, _ := json.Marshal(map[string]any{"model": "any", "max_tokens": 1024, "stream": stream, "messages": messages})
	head := "POST /v1/messages HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\nX-Api-Key: " + benchToken + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(head), body...)
}

// BenchmarkCall is a call from the sandbox's end of the wire to the provider and
// back, with all that the role does for it.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		for _, stream := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKB/stream=%t", size>>10, stream), func(b *testing.B) {
				caller := benchRole(b, benchProvider(nil))
				conn, err := caller.Dial()
				if err != nil {
					b.Fatal(err)
				}
				in, ask := bufio.NewReader(conn), benchRequest(size, stream)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := conn.Write(ask); err != nil {
						b.Fatal(err)
					}
					res, err := http.ReadResponse(in, nil)
					if err != nil || res.StatusCode != http.StatusOK {
						b.Fatal(res, err)
					}
					if _, err := io.Copy(io.Discard, res.Body); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkStreams holds streams open, and tells what the heap and the stacks
// have grown by for each. The provider's and the client's ends are of it.
func BenchmarkStreams(b *testing.B) {
	const streams = 200
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			for b.Loop() {
				hold := make(chan struct{})
				caller := benchRole(b, benchProvider(hold))
				ask := benchRequest(size, true)
				heap, stacks := inUse()
				var all sync.WaitGroup
				for range streams {
					conn, err := caller.Dial()
					if err != nil {
						b.Fatal(err)
					}
					if _, err := conn.Write(ask); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(conn, make([]byte, 200)); err != nil {
						b.Fatal(err)
					}
					all.Go(func() { _, _ = io.Copy(io.Discard, conn) })
				}
				heap2, stacks2 := inUse()
				b.ReportMetric(float64(heap2-heap)/streams, "heap/stream")
				b.ReportMetric(float64(stacks2-stacks)/streams, "stack/stream")
				if p := os.Getenv("HEAP"); p != "" {
					f, _ := os.Create(p + strconv.Itoa(size))
					_ = pprof.WriteHeapProfile(f)
					_ = f.Close()
				}
				close(hold)
			}
		})
	}
}

func inUse() (heap, stacks uint64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse, m.StackInuse
}
