package spec_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// victims are a file of the user's beside the workspace, and the ways by which
// an agent has a name in the workspace lead to it or near it.
func victims(t *testing.T, y *yard.Yard) (victim string) {
	t.Helper()
	victim = own(t, y, filepath.Join(outside(t, y, "victims"), "keys"), "as it was")
	if err := os.Symlink(y.Dir, filepath.Join(filepath.Dir(y.Dir), "alias")); err != nil {
		t.Fatal(err)
	}
	y.Sh(t, `ln -s ../victims/keys link; ln -s ../victims folder; ln -s /dev/null null; mkfifo pipe; mkdir plain; ln -s ../../victims/keys plain/link`).OK(t)
	return victim
}

// TestISO12_ReportsAreWrittenThroughNoLink: where an agent has put a link at the
// name of a report, the link is replaced; where it has put one on the way, the
// report is refused. A pipe is not waited for.
func TestISO12_ReportsAreWrittenThroughNoLink(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		victim := victims(t, y)
		for _, name := range []string{"link", "plain/link", "pipe", "null", "../alias/link", "new"} {
			attacked(t, y, 0, "--only", "ISO-04", "--html", name)
			at := filepath.Join(y.Dir, name)
			if info, err := os.Lstat(at); err != nil || !info.Mode().IsRegular() || !strings.Contains(contents(t, at), "<html") {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		for _, name := range []string{"folder/keys", "../alias/folder/keys", "folder/new"} {
			r := y.Run(t, "redteam", "--only", "ISO-04", "--html", name).Exit(t, 125)
			saysAll(t, r, "--html", y.Dir+"/folder is a link")
		}
		if got := tree(t, filepath.Dir(victim)); got != "keys=as it was" {
			t.Errorf("beside the workspace there are %s", got)
		}
		if left, _ := filepath.Glob(y.Dir + "/.bailey-*"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		// The twin: a link of the user's own, outside of the workspace, leads on.
		if err := os.Symlink(filepath.Dir(victim), filepath.Join(y.Home, "reports")); err != nil {
			t.Fatal(err)
		}
		attacked(t, y, 0, "--only", "ISO-04", "--html", y.Home+"/reports/page.html")
		if !strings.Contains(contents(t, filepath.Dir(victim)+"/page.html"), "<html") {
			t.Error("there is no page behind the user's own link")
		}
	})
}

// TestISO12_PhaseReportThroughNoLink: the same for the report of a phase, whose
// agents run until it is written.
func TestISO12_PhaseReportThroughNoLink(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		victim := own(t, y, filepath.Join(outside(t, y, "victims"), "keys"), "as it was")
		const agent = `set -e
echo a >> work.txt
mkdir -p ignored/made
ln -sfn ../../victims/keys ignored/report.md; ln -sfn ../../victims ignored/late; rmdir ignored/made; ln -s ../../victims ignored/made
`
		p := newPhaseYard(t, y, agent, "#!/bin/sh\n", "Unit a")
		owned(t, y, y.Dir+"/ignored/made/x", "x\n", 0o644)
		_ = os.Remove(y.Dir + "/ignored/made/x")
		p.phase(t, "--report", "ignored/report.md").OK(t)
		if info, err := os.Lstat(y.Dir + "/ignored/report.md"); err != nil || !info.Mode().IsRegular() {
			t.Errorf("the report: %v, %v", info, err)
		}
		saysAll(t, p.phase(t, "--report", "ignored/made/new.md").Exit(t, 125), "--report", "ignored/made is a link")
		if got := tree(t, filepath.Dir(victim)); got != "keys=as it was" {
			t.Errorf("beside the workspace there are %s", got)
		}
	})
}

// TestISO12_NewFilesThroughNoLink: files and folders that a flag has made are
// not made behind an agent's link either.
func TestISO12_NewFilesThroughNoLink(t *testing.T) {
	t.Attr("claim", "ISO-12")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		victim := victims(t, y)
		for _, name := range []string{"folder/p.yaml", "../alias/folder/p.yaml"} {
			saysAll(t, y.Run(t, "run", "--learn="+name, "--", "true").Exit(t, 125), "--learn", "is a link")
		}
		y.Run(t, "run", "--learn=plain/p.yaml", "--", "true").OK(t)
		y.Run(t, "run", "--home", "kept", "--", "sh", "-c", "echo x > ~/x").OK(t)
		saysAll(t, y.Run(t, "home", "export", "kept", "folder/h.tar").Exit(t, 125), "is a link")
		y.Run(t, "home", "export", "kept", "plain/h.tar").OK(t)
		saysAll(t, y.Run(t, "home", "export", "kept", "link").Exit(t, 125), "not there yet")
		if got := tree(t, filepath.Dir(victim)); got != "keys=as it was" {
			t.Errorf("beside the workspace there are %s", got)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(y.Dir+"/plain/h.tar", &st); err != nil || st.Mode&0o777 != 0o600 {
			t.Errorf("the archive: %o, %v", st.Mode, err)
		}
	})
}
