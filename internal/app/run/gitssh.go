package run

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/rootfs"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/sshgit"
	"github.com/bailey-dev/bailey/internal/wire"
)

// gitPlan is a run's git over SSH.
type gitPlan struct {
	key    []byte // that hosts show inside
	known  []byte // the file by which clients inside know it
	signer gate.Signer
}

// planGit finds out what git over SSH takes, if rules name repositories. Nothing
// is opened: who has the key does that.
func planGit(h Host, workspace string, holds settings.Effective) (*gitPlan, error) {
	rules := holds.Policy().OverSSH()
	if len(rules) == 0 {
		return nil, nil //nolint:nilnil // the run has none
	}
	var hosts []string
	for _, r := range rules {
		if at := fmt.Sprintf("%s:%d", r.Host, r.Port); !slices.Contains(hosts, at) {
			hosts = append(hosts, at)
		}
	}
	g := &gitPlan{signer: gate.Signer{Policy: holds.Policy(), Agent: h.Env.Get("SSH_AUTH_SOCK")}}
	if holds.Key != nil {
		g.signer.Key = holds.Key.Value
	}
	for _, path := range []string{g.signer.Key, g.signer.Agent} {
		if path != "" && sandbox.Within(filepath.Clean(path), workspace) {
			return nil, bailey.NewError(bailey.Forbidden, fmt.Sprintf("git over SSH: %s lies in the workspace, where the sandbox reaches it", path), "keep it elsewhere, or work in another folder")
		}
	}
	for _, dir := range []string{filepath.Join(h.Home, ".ssh/known_hosts"), "/etc/ssh/ssh_known_hosts"} {
		g.signer.Known = append(g.signer.Known, dir, dir+"2") // ssh_config(5)
	}
	var err error
	if g.key, err = sshgit.NewHostKey(); err != nil {
		return nil, err
	}
	g.known, err = sshgit.KnownHosts(g.key, hosts)
	return g, err
}

func (g *gitPlan) hostKey() []byte {
	if g == nil {
		return nil
	}
	return g.key
}

// into has clients inside know the key: OpenSSH by the first file, others by
// the one of their user.
func (g *gitPlan) into(p *plan) {
	if g == nil {
		return
	}
	p.spec.Files = append(p.spec.Files, bailey.File{Path: "/etc/ssh/ssh_known_hosts", Mode: 0o644, Data: g.known})
	p.files = append(p.files, wire.File{Path: rootfs.HomeDir + "/.ssh/known_hosts", Mode: 0o600, Data: g.known})
}

// notes says whose key it is.
func (g *gitPlan) notes() []string {
	switch {
	case g == nil:
		return nil
	case g.signer.Key != "":
		return []string{"git over SSH: signed outside with " + g.signer.Key}
	case g.signer.Agent != "":
		return []string{"git over SSH: signed outside by your ssh-agent"}
	}
	return []string{"git over SSH: no ssh-agent is there (SSH_AUTH_SOCK) and net.git names no key, so every repository will be refused"}
}

// signerRole is the running process that has the user's key.
type signerRole struct {
	cmd   *exec.Cmd
	once  sync.Once
	mu    sync.Mutex
	rules *os.File
}

// startSigner starts it, if the run has git over SSH, and returns the proxy's end
// of the socket to it, or nil.
func (u *running) startSigner() (*os.File, error) {
	g := u.plan.git
	if g == nil {
		return nil, nil //nolint:nilnil // the run has none
	}
	ours, theirs, err := fdpass.PacketPair("git")
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	settings, rules, err := os.Pipe()
	if err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("make settings pipe: %w", err)
	}
	defer settings.Close()
	s := &signerRole{rules: rules, cmd: &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{gate.SignerArgv0}, Env: gate.Env(), Dir: "/",
		ExtraFiles: []*os.File{settings, theirs}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}}
	if err := startTied(s.cmd); err != nil {
		_, _ = ours.Close(), rules.Close()
		return nil, fmt.Errorf("start the process that has your key: %w", err)
	}
	u.signer = s
	if err := s.tell(g.signer); err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("tell the process that has your key: %w", err)
	}
	return ours, nil
}

// tell hands on the settings, or a policy.
func (s *signerRole) tell(v any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.rules.SetWriteDeadline(time.Now().Add(settingsPatience)); err != nil {
		return err
	}
	return json.NewEncoder(s.rules).Encode(v)
}

// follow has it follow a policy. One that does not is ended: it would let
// through what was taken back.
func (s *signerRole) follow(p policy.Policy) {
	if s != nil && s.tell(p) != nil {
		s.finish()
	}
}

// finish ends it.
func (s *signerRole) finish() {
	if s == nil {
		return
	}
	s.once.Do(func() {
		_ = s.rules.Close()
		_ = s.cmd.Process.Kill()
	})
}
