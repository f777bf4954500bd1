package doctor_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/doctor"
	"github.com/bailey-dev/bailey/internal/posture"
)

// told is a sandbox that says what it is told to.
type told struct {
	*strings.Reader
	code int
	err  error
}

func (s told) Finish() (code int, stderr string, err error) { return s.code, "", s.err }

// goodTask is what the probe says in a sandbox as it must be.
func goodTask() (lines []string, r posture.Report) {
	self := posture.Posture{
		UIDs: []int{1000, 1000, 1000, 1000}, NoNewPrivs: true, Seccomp: 2, FDs: []string{"anon:eventfd", "host:/dev/null", "pipe"},
		Mounts: []string{"/ own:/ ro,suid,dev", "/tmp 0:1:/ rw,dev", "/workspace 0:2:/ rw,dev", "/sys 0:3:/ ro,dev"},
	}
	return []string{"masked /usr/bin/su", "interface lo"}, posture.Report{Self: self, First: self}
}

// TestTask_EachRowCanBeMissing: every thing that is looked at is reported when
// it is not so, by its own row and by no other.
func TestTask_EachRowCanBeMissing(t *testing.T) {
	t.Parallel()
	for layer, change := range map[string]func(lines *[]string, r *posture.Report){
		"":             func(*[]string, *posture.Report) {},
		"network":      func(l *[]string, _ *posture.Report) { *l = append(*l, "interface eth0") },
		"root":         func(l *[]string, _ *posture.Report) { *l = append(*l, "written /usr/x") },
		"capabilities": func(_ *[]string, r *posture.Report) { r.First.Caps.Bounding = 1 },
		"privileges":   func(_ *[]string, r *posture.Report) { r.Self.NoNewPrivs = false },
		"seccomp":      func(_ *[]string, r *posture.Report) { r.Self.Seccomp = 0 },
		"mounts": func(_ *[]string, r *posture.Report) {
			r.Self.Mounts = append(r.Self.Mounts, "/home/u 0:4:/ rw,dev")
		},
		"descriptors": func(_ *[]string, r *posture.Report) { r.Self.FDs = append(r.Self.FDs, "socket") },
		"setuid":      func(l *[]string, _ *posture.Report) { *l = append(*l, "setid /usr/bin/mount") },
		"masked":      func(l *[]string, _ *posture.Report) { *l = append(*l, "executable /usr/bin/su") },
	} {
		lines, r := goodTask()
		change(&lines, &r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(append(lines, string(b)), "\n") + "\n"
		for _, row := range task(t, told{Reader: strings.NewReader(said)}) {
			missing := row.Status == doctor.Missing
			if row.Layer == "id" { // no sandbox is there
				continue
			}
			if missing != (row.Layer == layer) {
				t.Errorf("with %q changed, %s is %s: %s", layer, row.Layer, row.Status, row.Detail)
			}
		}
	}
}

// TestTask_WithoutAProbe: what cannot be looked at is missing.
func TestTask_WithoutAProbe(t *testing.T) {
	t.Parallel()
	for said, err := range map[string]error{
		"": bailey.NewError(bailey.Unsupported, "no sandbox here", "buy another machine"), "{\n": nil, "interface lo\n": nil,
		strings.Repeat("interface lo\n", 20_000): nil,
	} {
		rows := task(t, told{Reader: strings.NewReader(said), err: err})
		if len(rows) != 1 || rows[0].Layer != "gvisor" || rows[0].Status != doctor.Missing || doctor.Fit(rows) {
			t.Errorf("%+v", rows)
		}
	}
}

func task(t *testing.T, sb doctor.Sandbox) []doctor.Row {
	t.Helper()
	rows, err := doctor.Task(t.Context(), doctor.TaskConfig{
		UID: 1, PID: 1 << 30, Inside: "/workspace", Masked: []string{"su"},
		Start: func(context.Context, string, []string) (doctor.Sandbox, error) { return sb, nil },
		Temp:  func() (string, func() error, error) { return "/nowhere", func() error { return nil }, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
