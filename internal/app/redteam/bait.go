package redteam

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The bait's content: what no attack may bring home.
const (
	canaryPrefix = "bailey-redteam-"
	canaryLength = len(canaryPrefix) + 32
)

// Ground is where bait is laid.
type Ground struct {
	Folder    string   // a new folder of the caller's alone, outside any workspace
	Workspace string   // in which the attacks get a folder
	Hold      []string // the command of a process that keeps a secret (Hold)
	Home      string   // the caller's
	Agent     string   // the socket of their ssh-agent; empty for none
	Runtime   string   // their runtime folder (XDG_RUNTIME_DIR); empty for none
	Control   bool     // the attacks on it are tried without a sandbox
}

// Bait is what lies on the host to be gone for.
type Bait struct {
	Target Target

	ground  Ground
	canary  string
	closing []func() error
	hold    *exec.Cmd

	mu      sync.Mutex
	touched map[string]bool
}

// Lay lays bait. The caller closes it.
func Lay(ctx context.Context, g Ground) (*Bait, error) {
	b := &Bait{ground: g, touched: map[string]bool{}}
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return nil, fmt.Errorf("draw the bait: %w", err)
	}
	b.canary = canaryPrefix + hex.EncodeToString(token)
	b.Target = Target{
		Control: g.Control, Dir: g.Folder, Secret: filepath.Join(g.Folder, "secret"), Socket: filepath.Join(g.Folder, "s"),
		Abstract: canaryPrefix + hex.EncodeToString(token[:4]) + "-" + fmt.Sprint(os.Getpid()), Variable: "BAILEY_REDTEAM_" + strings.ToUpper(hex.EncodeToString(token[:4])),
		Keys: keys(g.Home), Sockets: services(g),
	}
	for _, step := range []func(context.Context) error{b.layFiles, b.laySockets, b.layProcess} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// Folder makes a folder for bait or attacks in another, and takes away those of
// processes that are gone.
func Folder(in string) (string, error) {
	entries, _ := os.ReadDir(in) // who cannot list it has none there
	for _, e := range entries {
		if abandoned(e) {
			_ = os.RemoveAll(filepath.Join(in, e.Name())) // the next redteam tries again
		}
	}
	return os.MkdirTemp(in, fmt.Sprintf("%s%d-", folderName, os.Getpid()))
}

const folderName = ".bailey-redteam-"

// abandoned reports whether an entry is a folder of Folder's, of the caller's
// own, whose process was killed.
func abandoned(e fs.DirEntry) bool {
	rest, ours := strings.CutPrefix(e.Name(), folderName)
	pid, random, _ := strings.Cut(rest, "-")
	n, err := strconv.Atoi(pid)
	if !ours || err != nil || n < 1 || random == "" || strings.Trim(random, "0123456789") != "" {
		return false
	}
	info, err := e.Info()
	if err != nil || !info.IsDir() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid() && errors.Is(unix.Kill(n, 0), unix.ESRCH)
}

// Variable is the one that no sandbox is to see, as NAME=VALUE.
func (b *Bait) Variable() string { return b.Target.Variable + "=" + b.canary }

// keys lists what of a home nobody else is to see.
func keys(home string) (out []string) {
	for _, name := range []string{
		".ssh", ".aws", ".azure", ".config/gcloud", ".config/gh", ".config/google-chrome", ".config/chromium", ".mozilla", ".gnupg", ".kube", ".docker",
		".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".netrc", ".git-credentials", ".npmrc", ".pypirc", ".password-store", ".local/share/keyrings", ".terraform.d", ".vault-token",
	} {
		out = append(out, filepath.Join(home, name))
	}
	return out
}

// services lists sockets of a machine that do what their caller says.
func services(g Ground) []string {
	out := []string{
		"/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
		"/run/dbus/system_bus_socket", "/run/systemd/private", "/run/snapd.socket", "/tmp/.X11-unix/X0", "@/tmp/.X11-unix/X0", "@/tmp/.ICE-unix/1",
	}
	if g.Runtime != "" {
		for _, name := range []string{"bus", "docker.sock", "podman/podman.sock", "wayland-0", "gnupg/S.gpg-agent", "systemd/private", "pipewire-0"} {
			out = append(out, filepath.Join(g.Runtime, name))
		}
	}
	if g.Agent != "" {
		out = append(out, g.Agent)
	}
	return out
}

func (b *Bait) layFiles(context.Context) error {
	if err := os.WriteFile(b.Target.Secret, []byte(b.canary+"\n"), 0o600); err != nil {
		return fmt.Errorf("lay a secret: %w", err)
	}
	scratch, err := Folder(b.ground.Workspace)
	if err != nil {
		return fmt.Errorf("make a folder for the attacks: %w", err)
	}
	b.Target.Scratch = scratch
	b.closing = append(b.closing, func() error { return os.RemoveAll(scratch) })
	return layRepository(scratch)
}

// OpenDescriptor opens the secret as a descriptor that children inherit.
func (b *Bait) OpenDescriptor() error {
	fd, err := unix.Open(b.Target.Secret, unix.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("open the secret: %w", err)
	}
	b.closing = append(b.closing, func() error { return unix.Close(fd) })
	return nil
}

func (b *Bait) laySockets(ctx context.Context) error {
	own := ownAddress()
	for _, s := range []struct {
		network, address string
		to, udp          *netip.AddrPort
	}{
		{"unix", b.Target.Socket, nil, nil},
		{"unix", "@" + b.Target.Abstract, nil, nil},
		{"tcp4", "127.0.0.1:0", &b.Target.TCP4, &b.Target.UDP4},
		{"tcp6", "[::1]:0", &b.Target.TCP6, &b.Target.UDP6},
		{"tcp4", own, &b.Target.Own, &b.Target.OwnUDP},
	} {
		if s.address == "" {
			continue
		}
		if err := b.listen(ctx, s.network, s.address, s.to, s.udp); err != nil {
			if s.network == "tcp6" {
				continue // a machine without IPv6
			}
			return err
		}
	}
	return nil
}

// listen opens a service of the bait, and with udp one on UDP beside it.
func (b *Bait) listen(ctx context.Context, network, address string, to, udp *netip.AddrPort) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	if err != nil {
		return fmt.Errorf("open a service to attack: %w", err)
	}
	b.closing = append(b.closing, l.Close)
	go b.serve(l)
	if to == nil {
		return nil
	}
	*to = netip.MustParseAddrPort(l.Addr().String())
	host, _, _ := net.SplitHostPort(address)
	p, err := lc.ListenPacket(ctx, strings.Replace(network, "tcp", "udp", 1), net.JoinHostPort(host, "0"))
	if err != nil {
		return fmt.Errorf("open a UDP service to attack: %w", err)
	}
	b.closing = append(b.closing, p.Close)
	*udp = netip.MustParseAddrPort(p.LocalAddr().String())
	go b.serveUDP(p)
	return nil
}

// ownAddress is an address of this machine that is not loopback, with port 0,
// or empty.
func ownAddress() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return net.JoinHostPort(n.IP.String(), "0")
		}
	}
	return ""
}

// serve answers whoever comes with the secret, and notes for which attack.
func (b *Bait) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			line, _ := bufio.NewReader(io.LimitReader(c, 1024)).ReadString('\n')
			b.touch(line)
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n", len(b.canary)+1, b.canary)
		}()
	}
}

func (b *Bait) serveUDP(p net.PacketConn) {
	buf := make([]byte, 2048)
	for {
		n, from, err := p.ReadFrom(buf)
		if err != nil {
			return
		}
		b.touch(string(buf[:n]))
		_, _ = p.WriteTo([]byte(b.canary), from)
	}
}

// touch notes the attack that a request says it is of.
func (b *Bait) touch(request string) {
	_, path, _ := strings.Cut(request, " /")
	id, _, _ := strings.Cut(path, " ")
	b.note(id)
}

func (b *Bait) note(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.touched[id] = true
}

// layProcess starts a process of the caller that has the secret in its
// environment and says when it was signalled.
func (b *Bait) layProcess(ctx context.Context) error {
	b.hold = exec.CommandContext(ctx, b.ground.Hold[0], b.ground.Hold[1:]...)
	b.hold.Env = []string{"BAILEY_REDTEAM_SECRET=" + b.canary}
	in, err := b.hold.StdinPipe()
	if err != nil {
		return fmt.Errorf("start a process to attack: %w", err)
	}
	out, err := b.hold.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start a process to attack: %w", err)
	}
	if err := b.hold.Start(); err != nil {
		return fmt.Errorf("start a process to attack: %w", err)
	}
	b.Target.Process = b.hold.Process.Pid
	said := bufio.NewScanner(out)
	ready := said.Scan()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for said.Scan() {
			b.note("ISO-14/signal")
		}
	}()
	b.closing = append(b.closing, func() error {
		_ = in.Close()
		<-heard
		if err := b.hold.Wait(); ctx.Err() == nil {
			return err
		}
		return nil // it was told to end, by the context or by a terminal
	})
	if !ready {
		return errors.New("start a process to attack: it says nothing")
	}
	return nil
}

// Close takes all bait up, the attacks' folder with it.
func (b *Bait) Close() error {
	var err error
	for _, c := range b.closing {
		err = errors.Join(err, c())
	}
	b.closing = nil
	return err
}

// evidence says of an attack whether it worked by what is on the host, whatever
// the attacker said.
func (b *Bait) evidence(id string) bool {
	b.mu.Lock()
	seen := b.touched[id]
	b.mu.Unlock()
	if seen {
		return true
	}
	git := filepath.Join(b.Target.Scratch, repository, ".git")
	switch id {
	case "ISO-02/write-outside":
		return there(filepath.Join(b.Target.Dir, planted))
	case "ISO-02/overwrite":
		got, err := os.ReadFile(b.Target.Secret)
		return err != nil || string(got) != b.canary+"\n"
	case "ISO-04/system":
		return b.systemChanged()
	case "ISO-06/owner":
		return b.strange()
	case "ISO-07/setuid":
		info, err := os.Lstat(filepath.Join(b.Target.Scratch, setuidName))
		return err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0
	case "RES-02/config":
		got, err := os.ReadFile(filepath.Join(git, "config"))
		return err != nil || string(got) != gitConfig
	case "RES-02/hook":
		return there(filepath.Join(git, "hooks", "post-checkout"))
	case "RES-02/attributes":
		got, err := os.ReadFile(filepath.Join(git, "info", "attributes"))
		return err != nil || len(got) > 0
	case "RES-02/worktree-config":
		return there(filepath.Join(git, "config.worktree"))
	}
	return false
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// systemChanged reports whether a sandbox left something among the system's
// files, and takes it away.
func (b *Bait) systemChanged() (changed bool) {
	for _, dir := range []string{"/usr/bin", "/usr/local/bin", "/etc"} {
		path := filepath.Join(dir, planted)
		if there(path) {
			changed = true
			_ = os.Remove(path)
		}
	}
	return changed
}

// strange reports whether something in the attacks' folder belongs to somebody
// else.
func (b *Bait) strange() bool {
	found := false
	_ = filepath.WalkDir(b.Target.Scratch, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(path, &st) == nil && int(st.Uid) != os.Getuid() {
			found = true
		}
		return nil
	})
	return found
}
