package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/bailey-dev/bailey"
)

const (
	maxStreams = 32               // TCP connections at once
	streamIdle = 10 * time.Second // between two questions on one
)

// Run answers on both sockets until ctx ends, then closes them and waits for
// the answers under way. It returns nil on that path, else the error of the
// socket that broke.
func (r *Responder) Run(ctx context.Context, udp net.PacketConn, tcp net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		_ = udp.Close()
		_ = tcp.Close()
	})
	defer stop()
	errs := make(chan error, 2)
	go func() { errs <- r.servePackets(ctx, udp) }()
	go func() { errs <- r.serveStreams(ctx, tcp) }()
	first := <-errs
	stopped := ctx.Err() != nil
	cancel()
	second := <-errs
	if stopped {
		return nil
	}
	return errors.Join(first, second)
}

func (r *Responder) servePackets(ctx context.Context, udp net.PacketConn) error {
	var running sync.WaitGroup
	defer running.Wait()
	buf := make([]byte, maxQuery+1)
	for {
		n, from, err := udp.ReadFrom(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("read question: %w", err)
			}
			pause(ctx) // an ICMP error of an earlier answer, or no memory
			continue
		}
		packet := append([]byte(nil), buf[:n]...)
		r.slots <- struct{}{} // full: the socket's buffer is the queue
		running.Go(func() {
			defer func() { <-r.slots }()
			if reply := r.answerSafely(ctx, packet, false); reply != nil {
				_, _ = udp.WriteTo(reply, from) // nobody to tell; the client asks again
			}
		})
	}
}

func (r *Responder) serveStreams(ctx context.Context, tcp net.Listener) error {
	var running sync.WaitGroup
	defer running.Wait()
	streams := make(chan struct{}, maxStreams)
	for {
		streams <- struct{}{}
		c, err := tcp.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return nil
		}
		if err != nil {
			<-streams
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept DNS connection: %w", err)
			}
			pause(ctx) // the peer was gone before it was accepted, or no descriptor is left
			continue
		}
		running.Go(func() {
			defer func() { <-streams }()
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			defer func() { _ = c.Close() }()
			r.serveStream(ctx, c)
		})
	}
}

// serveStream answers the questions of one connection, one after the other
// (RFC 1035 §4.2.2: each message has its length before it).
func (r *Responder) serveStream(ctx context.Context, c net.Conn) {
	for {
		if err := c.SetDeadline(r.cfg.Now().Add(streamIdle)); err != nil {
			return
		}
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint16(size[:])
		if n > maxQuery {
			return
		}
		packet := make([]byte, n)
		if _, err := io.ReadFull(c, packet); err != nil {
			return
		}
		reply := r.answerSafely(ctx, packet, true)
		if reply == nil {
			return
		}
		out := binary.BigEndian.AppendUint16(nil, uint16(len(reply))) //nolint:gosec // at most maxReply
		if _, err := c.Write(append(out, reply...)); err != nil {
			return
		}
	}
}

// pause keeps a loop whose socket fails from eating a CPU.
func pause(ctx context.Context) {
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// answerSafely keeps a bug that hostile bytes can trigger to the one packet.
func (r *Responder) answerSafely(ctx context.Context, packet []byte, stream bool) (reply []byte) {
	defer func() {
		if p := recover(); p != nil {
			reply = nil
			var ev bailey.Event
			ev.Time = r.cfg.Now()
			ev.Type = bailey.EventError
			ev.Sandbox = r.cfg.Sandbox
			ev.Message = fmt.Sprintf("bug: a DNS question made the responder panic: %v", p)
			r.cfg.Recorder.Record(ev)
		}
	}()
	return r.answer(ctx, packet, stream)
}
