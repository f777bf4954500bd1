package run_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// A long list of files is a short list of what would run them, and nothing
// that is odd is lost in it.
func TestReportRuns_IsGrouped(t *testing.T) {
	t.Parallel()
	const changed = "runs on the host: changed during the run"
	runners := workspace.Runners()
	found := []workspace.Finding{
		{Path: "/w/.envrc", What: changed, By: runners[1]},
		{Path: "/w/.gitattributes", What: changed, By: runners[0]},
		{Path: "/w/hooks/pre-commit", What: "is a git hook or git configuration: changed during the run", By: runners[0]},
	}
	for i := range 300 {
		found = append(found, workspace.Finding{Path: fmt.Sprintf("/w/p%d/Makefile", i), What: changed, By: runners[4]})
	}
	found = append(found, workspace.Finding{Path: "/w/deep", What: "was not looked through"})
	var out bytes.Buffer
	run.ReportRuns(&out, "/w", found)
	want := []string{
		"would run on the host:",
		"  deep: was not looked through",
		"  git and its hooks: .gitattributes (changed during the run)",
		"  git and its hooks: hooks/pre-commit (is a git hook or git configuration: changed during the run)",
		"  your shell: .envrc (changed during the run)",
		"  a build or a test: p0/Makefile, p1/Makefile, p2/Makefile, p3/Makefile, p4/Makefile, p5/Makefile and 294 more (changed during the run)",
	}
	got := strings.Split(strings.TrimSpace(strings.ReplaceAll(out.String(), "bailey: ", "")), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	if run.ReportRuns(&out, "/w", nil); out.Len() != 0 {
		t.Errorf("of nothing: %q", out.String())
	}
}
