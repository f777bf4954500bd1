package spec_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// flooder holds every connection that it can have, and then asks for names and
// connects to what is refused as fast as it can, until it is ended.
const flooder = `import socket, struct, threading
held, turned = [], 0
while turned < 20:
    try:
        s = socket.create_connection(("11.0.0.10", 7)); s.settimeout(20)
        s.sendall(b"x\n")
        if s.recv(2): held.append(s); continue
    except OSError: pass
    turned += 1
print("holds", len(held), "turned away", turned, flush=True)
def ask():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); i = 0
    while True:
        i += 1
        q = struct.pack(">HHHHHH", i % 65536, 0x100, 1, 0, 0, 0)
        for l in ("f%d" % i, "wild", "test"): q += bytes([len(l)]) + l.encode()
        s.sendto(q + b"\0\0\1\0\1", ("192.0.0.1", 53))
def connect():
    while True:
        try:
            s = socket.create_connection(("11.0.0.66", 80)); s.sendall(b"GET / HTTP/1.1\r\nHost: " + b"h" * 8000 + b"\r\n\r\n"); s.recv(99)
        except OSError: pass
threads = [threading.Thread(target=f) for f in (ask, connect, connect)]
for t in threads: t.start()
print("flooding", flush=True)
for t in threads: t.join()
`

// worker asks and connects as a program does, and says how often it failed.
const worker = `import socket
failed = 0
for i in range(40):
    try:
        a = socket.gethostbyname("n%d.wild.test" % i)
        s = socket.create_connection((socket.gethostbyname("allow.test"), 80)); s.settimeout(20)
        s.sendall(b"GET / HTTP/1.1\r\nHost: allow.test\r\nConnection: close\r\n\r\n")
        d = b""
        while (b := s.recv(9999)): d += b
        if b"hello from allow.test" not in d: raise OSError(d)
    except OSError as e:
        failed += 1; print(i, repr(e))
print("failed", failed)
`

// TestFlood_StaysInItsSandbox: A101, A170 and A177 at once, in one sandbox; in
// another beside it every look-up and request succeeds.
func TestFlood_StaysInItsSandbox(t *testing.T) {
	t.Parallel()
	y := yard.Root(t)
	lab := netlab.New(t)
	y.Wrap = lab.Enter
	y.Write(t, "flooder.py", flooder)
	y.Write(t, "worker.py", worker)
	bad := y.Start(t, "run", "--name", "bad", "--pids", "64", "--allow", "11.0.0.10:7", "--allow", "*.wild.test", "--", python, "flooder.py")
	bad.Await(t, "flooding")
	if out, _ := bad.Output(); !strings.Contains(out, "holds 512 turned away 20") {
		t.Errorf("A170: the flooding sandbox %s, want 512 connections and no more", out)
	}
	r := y.Run(t, "run", "--name", "good", "--allow", "allow.test", "--allow", "*.wild.test", "--", python, "worker.py").OK(t)
	if !strings.Contains(r.Stdout, "failed 0\n") {
		t.Errorf("A101, A170, A177: beside the flood: %s", r.Stdout)
	}
	if out, stderr := bad.Output(); strings.Contains(stderr, "Traceback") || !strings.Contains(out, "flooding") {
		t.Errorf("the flood did not last: %s", stderr)
	}
	for _, q := range lab.Questions() {
		if strings.Contains(q.Name, "wild.test") {
			t.Errorf("A101: the question %s left", q.Name)
		}
	}
	stayed(t, lab, []netip.AddrPort{onAllowed(80), onAllowed(7)}, "allow.test")
	y.Run(t, "stop", "bad").OK(t)
}
