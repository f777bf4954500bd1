package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgress_KeepsTheEndOfWhatWasSaid: bounded, a step's own, and with nothing
// in it that acts on a terminal.
func TestProgress_KeepsTheEndOfWhatWasSaid(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := newProgress(file)
	said := func(text string) {
		t.Helper()
		to, done, err := p.follow()
		if err != nil {
			t.Fatal(err)
		}
		_, err = to.WriteString(text)
		if err := joined(err, to.Close(), done()); err != nil {
			t.Fatal(err)
		}
	}
	said("of an earlier step\n")
	var text strings.Builder
	for i := range 200 {
		_, _ = fmt.Fprintf(&text, "line %d\x1b[2J\r\n", i)
	}
	said(text.String() + "\n" + strings.Repeat("x", 3*mostLine) + "\nno end")
	got := p.tail()
	if len(got) > mostTail || got[len(got)-1] != "no end" || strings.Contains(strings.Join(got, ""), "earlier") {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
	if all := strings.Join(got, ""); strings.Contains(all, "\x1b") || !strings.Contains(all, "line 199") {
		t.Errorf("kept %q", all)
	}
	p.say("a sentence\x1b[2J")
	shown, err := os.ReadFile(file.Name())
	if err != nil || !strings.HasPrefix(string(shown), "bailey: a sentence") || strings.Contains(string(shown), "\x1b") || strings.Contains(string(shown), "line") {
		t.Errorf("where there is no terminal it says %q, %v", shown, err)
	}
}

func joined(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
