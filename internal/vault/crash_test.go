package vault_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/bailey-dev/bailey/internal/vault"
)

// changes are what is interrupted.
var changes = map[string]func(vault.Place) error{
	"add": func(p vault.Place) error { return add(p, "new") },
	"replace": func(p vault.Place) error {
		return vault.Update(p, now, func(e *vault.Edit) error {
			d, err := e.Find("a")
			return errors.Join(err, e.Replace(d, hidden(valueOf("a"))))
		})
	},
	"remove": func(p vault.Place) error {
		return vault.Update(p, now, func(e *vault.Edit) error { return e.Remove("b") })
	},
	"rekey": func(p vault.Place) error {
		_, err := vault.Rekey(p, vault.KeyForm{})
		return err
	},
	"accept": func(p vault.Place) error {
		_, err := vault.Accept(p)
		return err
	},
}

// names lists what a vault holds, each of which has to open.
func names(t *testing.T, p vault.Place) []string {
	t.Helper()
	v, err := vault.Open(p)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range v.List() {
		if _, value, err := v.Get(d.Name); err != nil || string(value.Reveal()) != valueOf(d.Name) {
			t.Fatalf("%s: %v", d.Name, err)
		}
		out = append(out, d.Name)
	}
	return out
}

// TestKilled_BetweenAnyTwoSteps: a process is killed (SIGKILL) before each of
// the steps of each change, of a vault that there was and of none. What opens
// afterwards is what was there before or what was to be there, never anything
// else; and the next change goes well.
func TestKilled_BetweenAnyTwoSteps(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]string{"add": {"a", "b"}, "add to nothing": nil, "replace": {"a", "b"}, "remove": {"a", "b"}, "rekey": {"a", "b"}, "rekey nothing": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			what, after := name, before
			switch name {
			case "add", "add to nothing":
				what, after = "add", append(slices.Clone(before), "new")
			case "remove":
				after = []string{"a"}
			case "rekey nothing":
				what = "rekey"
			}
			for step := 0; ; step++ {
				dir := t.TempDir()
				p := placeIn(dir)
				if len(before) > 0 {
					mustAdd(t, p, before...)
				}
				killed := kill(t, fmt.Sprintf("%s|%s|%d", dir, what, step))
				got := names(t, p)
				if !slices.Equal(got, before) && !slices.Equal(got, after) || !killed && !slices.Equal(got, after) {
					t.Fatalf("killed before step %d: it holds %q", step, got)
				}
				mustAdd(t, p, "zz")
				if again := names(t, p); !slices.Equal(again, append(got, "zz")) {
					t.Fatalf("killed before step %d: after the next change it holds %q", step, again)
				}
				if r, err := vault.Check(p); err != nil || len(r.Faults) > 0 {
					t.Fatalf("killed before step %d: %v, %v", step, r.Faults, err)
				}
				if !killed {
					if step < 5 {
						t.Fatalf("%d steps", step)
					}
					return
				}
			}
		})
	}
}

// kill runs this test's program as a victim, and reports whether it killed
// itself: it was not at its end before that step.
func kill(t *testing.T, job string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victim+"="+job)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("%s: %v\n%s", job, err, out)
	}
	return true
}

// TestFailed_AtAnyStep: an error at each of the steps of changes of keys, as of
// a full disk. The vault opens, by the old key or the new.
func TestFailed_AtAnyStep(t *testing.T) {
	t.Parallel()
	identity, recipient := newIdentity(t)
	for name, forms := range map[string][2]vault.KeyForm{
		"plain to plain":     {{}, {Kind: vault.PlainKey}},
		"plain to age":       {{}, {Kind: vault.RecipientKey, To: vault.Recipients{Names: []string{recipient}}}},
		"age to plain":       {{Kind: vault.RecipientKey, To: vault.Recipients{Names: []string{recipient}}}, {Kind: vault.PlainKey}},
		"age to age":         {{Kind: vault.RecipientKey, To: vault.Recipients{Names: []string{recipient}}}, {}},
		"plain to keyring":   {{}, {Kind: vault.KeyringKey}},
		"keyring to keyring": {{Kind: vault.KeyringKey}, {}},
		"keyring to plain":   {{Kind: vault.KeyringKey}, {Kind: vault.PlainKey}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full := errors.New("no space left on device")
			for step, done := 0, false; !done; step++ {
				p := with(newPlace(t), vault.IdentityVariable, identity)
				p.Keyring = newRing()
				mustAdd(t, p, "a", "b")
				if forms[0].Kind != "" {
					if _, err := vault.Rekey(p, forms[0]); err != nil {
						t.Fatal(err)
					}
				}
				n := 0
				_, err := vault.Rekey(vault.StopAt(p, func(string) error {
					if n++; n > step {
						return full
					}
					return nil
				}), forms[1])
				done = err == nil
				if !done && !errors.Is(err, full) {
					t.Fatalf("step %d: %v", step, err)
				}
				holds(t, p, "a", "b")
				mustAdd(t, p, "c")
				holds(t, p, "a", "b", "c")
				if exists(keyOf(p) + ".next") {
					t.Errorf("step %d: a key is left over", step)
				}
			}
		})
	}
}

// TestFailed_Twice: a change of keys that ends at any step, and another that
// ends at any step after it.
func TestFailed_Twice(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	until := func(p vault.Place, step int) vault.Place {
		n := 0
		return vault.StopAt(p, func(string) error {
			if n++; n > step {
				return full
			}
			return nil
		})
	}
	for first, done := 0, false; !done; first++ {
		for second, done2 := 0, false; !done2; second++ {
			p := newPlace(t)
			mustAdd(t, p, "a")
			_, err := vault.Rekey(until(p, first), vault.KeyForm{})
			done = err == nil
			_, err = vault.Rekey(until(p, second), vault.KeyForm{})
			done2 = err == nil
			if v, err := vault.Open(p); err != nil {
				t.Fatalf("steps %d and %d: %v", first, second, err)
			} else if _, _, err := v.Get("a"); err != nil {
				t.Fatalf("steps %d and %d: %v", first, second, err)
			}
		}
	}
}

// TestOpen_WhileKeysChange: whoever reads meanwhile reads all of it.
func TestOpen_WhileKeysChange(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mustAdd(t, p, "a", "b")
	const changes = 60
	done := make(chan struct{})
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				v, err := vault.Open(p)
				if err != nil {
					t.Error(err)
					return
				}
				if r, err := vault.Check(p); err != nil || len(r.Faults) > 0 {
					t.Error(r.Faults, err)
				}
				if _, value, err := v.Get("b"); err != nil || string(value.Reveal()) != valueOf("b") {
					t.Error(err)
				}
			}
		})
	}
	for range changes {
		if _, err := vault.Rekey(p, vault.KeyForm{}); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wait.Wait()
}
