package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// splice dials the upstream, hands it what was read so far and joins the two,
// watched by a screen.
func (f *flow) splice(ctx context.Context, s screen) {
	up := f.dial(ctx)
	if up == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { reset(up) })
	defer stop()
	_ = f.down.SetReadDeadline(time.Time{})
	f.relay(up, s)
}

// dial connects to the first address that answers. On nil the decision says
// why there is none.
func (f *flow) dial(ctx context.Context) *net.TCPConn {
	to := f.resolve(ctx)
	if to.none() {
		return nil
	}
	up, err := f.dialAny(ctx, to)
	if err != nil {
		f.decision.Reason = policy.ReasonUpstream
		f.decision.Detail = err.Error()
		return nil
	}
	return up
}

// lastLook judges an address just before the kernel gets it.
type lastLook = func(network, address string, _ syscall.RawConn) error

// newDialer connects to what a last look lets it.
func newDialer(look lastLook) net.Dialer {
	d := net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: 0, Count: 0},
		Control:         look,
	}
	d.SetMultipathTCP(false)
	return d
}

// dialAny tries addresses that were judged, one after the other.
func (f *flow) dialAny(ctx context.Context, list judged) (*net.TCPConn, error) {
	if list.through != "" {
		return f.dialThrough(ctx, list.through)
	}
	dialer := newDialer(list.lastLook)
	var errs []error
	for _, a := range list.addrs {
		to := netip.AddrPortFrom(a, f.dest.Port())
		c, err := dialer.DialContext(ctx, "tcp", to.String())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return nil, errors.Join(fmt.Errorf("dial %s: bug: not a TCP connection", to), c.Close())
		}
		f.dialled.Store(&to)
		return tcp, nil
	}
	return nil, f.unreached(errs)
}

// lastLook judges an address again before the kernel gets it. It can only
// refuse through a bug in an earlier stage, or when the address became one of
// this machine's meanwhile.
func (j judged) lastLook(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %q: bug: not an address", address)
	}
	if d := j.judge(to.Addr()); d.Verdict != bailey.Allow {
		return fmt.Errorf("dial %s: %s", to, d.Detail)
	}
	return nil
}

// relay hands f.head on and copies both ways until both ends are reached, or
// the screen refuses. An end of data is passed on as such, an error as a reset,
// and so is a time without any byte.
func (f *flow) relay(up *net.TCPConn, s screen) {
	r := &relay{idle: idleTimeout, now: f.p.cfg.Now}
	r.last.Store(r.now().UnixNano())
	out := &leg{r: r, dst: up, src: f.down, count: &f.out, early: f.head}
	in := &leg{r: r, dst: f.down, src: up, count: &f.in, early: nil}
	f.head = nil
	var both sync.WaitGroup
	var outErr, inErr error
	both.Go(func() { outErr = r.carry(out, s.fromClient) })
	inErr = r.carry(in, s.fromServer)
	both.Wait()
	f.kept = outErr == nil && inErr == nil
	if bad := refused(errors.Join(outErr, inErr)); bad != nil {
		f.refuse(bad.reason, bad.detail)
	}
	_ = up.Close()
}

// relay is one pair of directions with a common idea of being idle.
type relay struct {
	idle time.Duration
	now  func() time.Time
	last atomic.Int64 // when a byte moved in either direction, in Unix nanoseconds
}

// errBroken is the end of a direction that was no orderly one.
var errBroken = errors.New("the connection broke")

// carry moves the bytes of one direction: the first ones by way of a screen.
// After any end but an orderly one both connections are reset.
func (r *relay) carry(l *leg, begin func(*leg) error) error {
	err := begin(l)
	l.buf = nil // a connection may stay for hours
	// The end of data comes again when it is read on.
	if err == nil || errors.Is(err, io.EOF) {
		err = nil
		if !r.copy(l.dst, l.src, l.count) {
			err = errBroken
		}
	}
	if err != nil {
		reset(l.dst)
		reset(l.src)
	}
	return err
}

// isIdle reports whether no byte has moved in either direction for too long.
func (r *relay) isIdle() bool {
	return r.now().UnixNano()-r.last.Load() >= int64(r.idle)
}

// maxCopy bounds one call of io.Copy, whose count is known only at its end.
const maxCopy = 1 << 30

// copy moves bytes inside the kernel (splice(2) by TCPConn.ReadFrom) until the
// end of src, which it passes on. It wakes up twice in an idle time to see
// whether the whole connection is idle. It reports whether the end was an
// orderly one.
func (r *relay) copy(dst, src *net.TCPConn, count *atomic.Int64) bool {
	for {
		now := r.now()
		stuck := now.Add(r.idle)
		_ = src.SetReadDeadline(now.Add(r.idle / 2))
		_ = dst.SetWriteDeadline(stuck)
		n, err := io.Copy(dst, &io.LimitedReader{R: src, N: maxCopy})
		count.Add(n)
		now = r.now()
		if n > 0 {
			r.last.Store(now.UnixNano())
		}
		switch {
		case err == nil && n == maxCopy:
		case err == nil:
			return dst.CloseWrite() == nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || !now.Before(stuck):
			return false
		case r.isIdle():
			return false
		}
	}
}
