package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// image is what the docker contenders run: busybox and nothing else.
const image = "bailey-bench"

// docker is a docker engine of our own, on its own socket and folders.
type docker struct {
	dir    string
	host   string
	client string
	cmd    *exec.Cmd
}

// startDocker starts an engine that knows runsc as a runtime, and gives it an
// image. It wants root, dockerd and a static busybox.
func startDocker(ctx context.Context, dir, runsc string) (*docker, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("starting dockerd wants root")
	}
	dockerd, err := exec.LookPath("dockerd")
	if err != nil {
		return nil, errors.New("dockerd is not installed")
	}
	client, err := exec.LookPath("docker")
	if err != nil {
		return nil, errors.New("docker is not installed")
	}
	d := &docker{dir: filepath.Join(dir, "docker"), client: client}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return nil, err
	}
	d.host = "unix://" + filepath.Join(d.dir, "sock")
	log, err := os.Create(filepath.Join(d.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	d.cmd = exec.CommandContext(ctx, dockerd, "--host", d.host,
		"--data-root", filepath.Join(d.dir, "data"), "--exec-root", filepath.Join(d.dir, "exec"),
		"--pidfile", filepath.Join(d.dir, "pid"), "--bridge", "none", "--iptables=false", "--ip6tables=false",
		"--storage-driver", "vfs", "--add-runtime", "runsc="+runsc)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	if err := errors.Join(d.wait(ctx), d.load(ctx)); err != nil {
		d.stop()
		return nil, fmt.Errorf("%w (%s)", err, lastLine(log.Name()))
	}
	return d, nil
}

func (d *docker) docker(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, d.client, append([]string{"--host", d.host}, args...)...)
}

// wait returns when the engine answers.
func (d *docker) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		if d.docker(ctx, "version").Run() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("dockerd did not answer within 30 s")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (d *docker) load(ctx context.Context) error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return errors.New("busybox is not installed")
	}
	data, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err = errors.Join(
		w.WriteHeader(&tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755}),
		w.WriteHeader(&tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data))}),
		func() error { _, err := w.Write(data); return err }(),
		w.WriteHeader(&tar.Header{Name: "bin/true", Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}),
		w.Close(),
	)
	if err != nil {
		return err
	}
	cmd := d.docker(ctx, "import", "-", image)
	cmd.Stdin = &archive
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import an image: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (d *docker) contender(name, runtime string) contender {
	argv := []string{d.client, "--host", d.host, "run", "--rm", "--runtime", runtime, "--network", "none", image, "/bin/true"}
	return contender{name: name, argv: argv, dir: d.dir, root: true}
}

// stop ends the engine and what it started.
func (d *docker) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(15*time.Second, func() { _ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	_ = d.cmd.Wait()
}

// unmountBelow takes away what docker and gVisor leave mounted in their state
// folders (null-netns).
func unmountBelow(dir string) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	for line := range strings.SplitSeq(string(mounts), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH)
		}
	}
}

func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}
