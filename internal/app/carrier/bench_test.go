package carrier_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/app/carrier"
	"github.com/bailey-dev/bailey/internal/carry"
	"github.com/bailey-dev/bailey/internal/launcher"
)

// manyFiles makes a repository with a commit of n files of some KB.
func manyFiles(b *testing.B, n int) string {
	b.Helper()
	dir := realDir(b)
	git(b, dir, "init", "-q", "-b", "main")
	var s strings.Builder
	s.WriteString("commit refs/heads/main\ncommitter a <a@example.com> 1700000000 +0000\ndata 1\nx\n")
	for i := range n {
		text := strings.Repeat(fmt.Sprintf("line %d of a file\n", i*7919), 1+i%200)
		fmt.Fprintf(&s, "M 100644 inline d%d/e%d/f%d.txt\ndata %d\n%s\n", i%50, i/50%20, i, len(text), text)
	}
	cmd := exec.CommandContext(b.Context(), "git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(s.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	git(b, dir, "reset", "-q", "--hard")
	return dir
}

// BenchmarkSnapshot compares with what a person would do: the ratio is the
// goal, 2 for 50,000 files.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{5000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			repo, folder := manyFiles(b, n), realDir(b)
			s := carrier.Starter{Folder: folder}
			var ours, theirs spent
			for i := range b.N {
				at := filepath.Join(folder, fmt.Sprint(i))
				if err := os.Mkdir(at, 0o700); err != nil {
					b.Fatal(err)
				}
				began := now(b)
				git(b, at, "clone", "-q", "--local", repo, "twin")
				theirs.add(began, now(b))
				began = now(b)
				var got launcher.Snapshot
				ask(b, s, carry.Request{Snapshot: &carry.Snapshot{
					Repository: carry.Repository{Path: repo, Roots: []string{repo}}, ID: "t1", Shadow: at + "/shadow", Clone: at + "/clone",
				}}, &got)
				ours.add(began, now(b))
				b.StopTimer()
				if err := os.RemoveAll(at); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			report(b, ours, theirs)
		})
	}
}

// BenchmarkCollect compares with `git add -A` in the same clone: nothing but
// one file changed, and every file.
func BenchmarkCollect(b *testing.B) {
	const n = 50_000
	for name, every := range map[string]int{"one changed": n, "all changed": 1} {
		b.Run(name, func(b *testing.B) {
			repo, folder := manyFiles(b, n), realDir(b)
			s := carrier.Starter{Folder: folder}
			clone := folder + "/clone"
			var got launcher.Snapshot
			ask(b, s, carry.Request{Snapshot: &carry.Snapshot{
				Repository: carry.Repository{Path: repo, Roots: []string{repo}}, ID: "t1", Shadow: folder + "/shadow", Clone: clone,
			}}, &got)
			for i := 0; i < n; i += every {
				write(b, fmt.Sprintf("%s/d%d/e%d/f%d.txt", clone, i%50, i/50%20, i), fmt.Sprintf("changed %d\n", i))
			}
			var ours, theirs spent
			for range b.N {
				began := now(b)
				var c launcher.Collected
				ask(b, s, carry.Request{Collect: &carry.Collect{ID: "t1", Shadow: folder + "/shadow", Clone: clone}}, &c)
				ours.add(began, now(b))
				b.StopTimer()
				index, err := os.ReadFile(clone + "/.git/index")
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				began = now(b)
				git(b, clone, "add", "-A")
				theirs.add(began, now(b))
				b.StopTimer()
				if err := os.WriteFile(clone+"/.git/index", index, 0o600); err != nil {
					b.Fatal(err)
				}
				git(b, clone, "prune", "--expire=now")
				b.StartTimer()
			}
			report(b, ours, theirs)
		})
	}
}

// spent is time on the clock and of the processors: the second is the same on a
// machine that has other work.
type spent struct{ clock, cpu time.Duration }

func now(b *testing.B) spent {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		b.Fatal(err)
	}
	return spent{clock: time.Duration(time.Now().UnixNano()), cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}

func (s *spent) add(from, to spent) {
	s.clock += to.clock - from.clock
	s.cpu += to.cpu - from.cpu
}

func report(b *testing.B, ours, theirs spent) {
	b.Helper()
	b.ReportMetric(float64(ours.clock.Milliseconds())/float64(b.N), "bailey-ms")
	b.ReportMetric(float64(theirs.clock.Milliseconds())/float64(b.N), "git-ms")
	b.ReportMetric(float64(ours.clock)/float64(theirs.clock), "ratio")
	b.ReportMetric(float64(ours.cpu)/float64(theirs.cpu), "cpu-ratio")
}
