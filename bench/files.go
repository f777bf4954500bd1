package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Where work on files is done.
const (
	onHost   = "host"
	onBwrap  = "bubblewrap"
	onShared = "bailey run --runtime native"
)

func fileCase(work, where string) string { return work + ", " + where }

// treeFolders and treeFiles make a tree of 5,000 files, as a usual repository
// has.
const (
	treeFolders = 100
	treeFiles   = 50
)

// files returns those who work on the files of one repository, from start to
// exit: the sandbox's own start is part of it. Each does so from warm caches.
func (l *lab) files(ctx context.Context, missing map[string]string) []contender {
	repo := filepath.Join(l.dir, "tree")
	if err := l.plant(ctx, repo); err != nil {
		missing["work on files"] = err.Error()
		return nil
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		missing["work on files, bubblewrap"] = "bwrap is not installed"
	}
	var all []contender
	for name, script := range map[string]string{
		"git status": "git status --porcelain",
		"grep":       "grep -r needle . || true",
		"go build":   "GOCACHE=$PWD/.cache GOFLAGS=-buildvcs=false GO111MODULE=on go build -o .cache/out ./cmd",
	} {
		shell := []string{"sh", "-c", `export PATH=/usr/local/go/bin:$PATH; ` + script}
		all = append(all, contender{name: fileCase(name, onHost), argv: shell, dir: repo})
		argv := append([]string{l.bailey, "run", "--quiet", "--runtime", "native", "--tool", "go", "--"}, shell...)
		all = append(all, contender{name: fileCase(name, onShared), argv: argv, dir: repo})
		if err == nil {
			all = append(all, contender{name: fileCase(name, onBwrap), argv: bubblewrap(bwrap, repo, shell...), dir: repo})
		}
	}
	return all
}

// plant makes the repository.
func (l *lab) plant(ctx context.Context, repo string) error { //nolint:gocognit // a benchmark is a list of steps
	for i := range treeFolders {
		dir := filepath.Join(repo, fmt.Sprintf("d%d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for k := range treeFiles {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.txt", k)), fmt.Appendf(nil, "file %d of %d\n", k, i), 0o644); err != nil {
				return err
			}
		}
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/bench\n\ngo 1.21\n", "cmd/main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }\n", ".gitignore": ".cache\n",
	} {
		path := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if l.cred != nil {
		if out, err := exec.CommandContext(ctx, "chown", "-R", fmt.Sprintf("%d:%d", l.cred.Uid, l.cred.Gid), repo).CombinedOutput(); err != nil {
			return fmt.Errorf("chown: %w: %s", err, out)
		}
	}
	script := "git init -q . && git add -A && git -c user.name=b -c user.email=b@example.com commit -qm start"
	_, err := l.output(ctx, contender{name: "git commit", argv: []string{"sh", "-c", script}, dir: repo})
	return err
}
