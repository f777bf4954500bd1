package redteam

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain is the process to attack, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "redteam-hold" {
		if Hold(os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		return
	}
	signal.Reset(unix.SIGUSR1)
	os.Exit(m.Run())
}

func lay(t *testing.T) *Bait {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Lay(context.WithoutCancel(t.Context()), Ground{Folder: t.TempDir(), Workspace: t.TempDir(), Hold: []string{exe, "redteam-hold"}, Home: t.TempDir(), Control: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// attackOn attacks a bait from this process, which no sandbox holds.
func attackOn(t *testing.T, b *Bait, pick ...string) Verdicts {
	t.Helper()
	in, err := json.Marshal(b.Target)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Attack(t.Context(), bytes.NewReader(in), &out, pick); err != nil {
		t.Fatal(err)
	}
	return b.Judge(&out)
}

// TestCompare_WhatWorksInsideBroke takes attacks that no sandbox held for those
// of a sandbox: each that works is found out, by what it read or by what it
// left.
func TestCompare_WhatWorksInsideBroke(t *testing.T) {
	b := lay(t)
	if err := b.OpenDescriptor(); err != nil {
		t.Fatal(err)
	}
	name, value, _ := strings.Cut(b.Variable(), "=")
	t.Setenv(name, value)
	v := attackOn(t, b)
	broke := []string{}
	for _, r := range Compare(v, v, nil) {
		if r.Outcome == Broke {
			broke = append(broke, r.ID)
		}
	}
	for _, id := range []string{
		"ISO-02/read-outside", "ISO-02/read-by-proc", "ISO-02/write-outside", "ISO-02/overwrite", "ISO-02/siblings", "ISO-03/socket", "ISO-03/abstract",
		"ISO-05/new-privileges", "ISO-07/setuid", "ISO-10/descriptor", "ISO-10/environments", "ISO-10/memory", "ISO-12/symlink", "ISO-12/hardlink", "ISO-12/dots",
		"ISO-14/signal", "ISO-14/trace", "SEC-08/variable", "EGR-10/tcp4", "EGR-10/udp4", "RES-02/config", "RES-02/hook", "RES-02/attributes", "RES-02/worktree-config",
	} {
		if !slices.Contains(broke, id) {
			t.Errorf("%s works here and was not found out: %+v", id, v[id])
		}
	}
}

// TestCompare_Outcomes: an attacker that says nothing is not taken for one that
// failed, nor is one that fails anywhere.
func TestCompare_Outcomes(t *testing.T) {
	const id = "ISO-02/read-outside"
	works, fails := verdict{tried: true, worked: true}, verdict{tried: true, said: "no such file"}
	for _, tc := range []struct {
		inside, without verdict
		want            string
	}{
		{fails, works, Held},
		{works, works, Broke},
		{works, fails, Broke},
		{fails, fails, Idle},
		{verdict{tried: true, moot: true}, works, Idle},
		{verdict{}, works, Lost},
	} {
		rows := Compare(Verdicts{id: tc.inside}, Verdicts{id: tc.without}, []string{id})
		if len(rows) != 1 || rows[0].Outcome != tc.want {
			t.Errorf("%+v inside, %+v without: %+v, want %s", tc.inside, tc.without, rows, tc.want)
		}
	}
	r := Report{}
	if r.Add(Row{Outcome: Held}); !r.OK() {
		t.Error("an attack that failed is no failure")
	}
	for _, outcome := range []string{Broke, Lost} {
		if r := (Report{}); true {
			if r.Add(Row{Outcome: outcome}); r.OK() {
				t.Errorf("%s is taken for a success", outcome)
			}
		}
	}
	if row := Bombs()[0].Judge(0); row.Outcome != Broke {
		t.Errorf("a bomb that nothing ended: %+v", row)
	}
}

// TestBomb_Outcomes: what did not come back is not taken for what worked.
func TestBomb_Outcomes(t *testing.T) {
	for _, b := range Bombs() {
		for code, want := range map[int]string{b.Exit: Held, worked: Broke, 1: Broke, 125: Broke} {
			if got := b.Judge(code).Outcome; got != want {
				t.Errorf("%s ended with %d: %s, want %s", b.Name, code, got, want)
			}
		}
		if got := b.Judge(late).Outcome; b.Exit != late && got != Lost {
			t.Errorf("%s that was too slow: %s", b.Name, got)
		}
	}
}

// TestFork_FindsOutThatThereIsNoLimit, and tells one from a shell that ends for
// another reason, and from a machine that is too slow.
func TestFork_FindsOutThatThereIsNoLimit(t *testing.T) {
	if code, err := fork(t.Context(), 16); code != worked || err != nil {
		t.Errorf("without a limit: %d, %v", code, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, err := fork(ctx, 16); code != late || err != nil {
		t.Errorf("without time: %d, %v", code, err)
	}
}

// TestJudge_HostileAnswers: what an attacker prints that is no answer is passed
// over, and it cannot unsay what it left.
func TestJudge_HostileAnswers(t *testing.T) {
	b := lay(t)
	if v := attackOn(t, b, "ISO-02/write-outside"); !v["ISO-02/write-outside"].worked {
		t.Fatalf("%+v", v)
	}
	v := b.Judge(strings.NewReader("\x1b[2J\n{\"id\":\n[]\n{\"id\":\"ISO-02/write-outside\",\"took\":{\"said\":\"no\\nnever\"}}\n"))
	if got := v["ISO-02/write-outside"]; !got.worked {
		t.Errorf("%+v", got)
	}
}

// TestAttacks_HaveNames: ids are unique, and those who watch the bait know
// them.
func TestAttacks_HaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range All() {
		if seen[r.ID] || r.Attack == "" || !strings.HasPrefix(r.ID, r.Claim+"/") {
			t.Errorf("%+v", r)
		}
		seen[r.ID] = true
	}
}
