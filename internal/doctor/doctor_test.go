package doctor_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/doctor"
	"github.com/bailey-dev/bailey/internal/linux/cgroup"
)

// machine makes a folder that looks like a machine's /proc and /sys.
func machine(t *testing.T, change map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"proc/sys/kernel/osrelease":             "6.8.0-generic\n",
		"proc/sys/kernel/seccomp/actions_avail": "kill_process kill_thread trap errno user_notif trace log allow\n",
		"proc/sys/user/max_user_namespaces":     "15000\n",
		"proc/self/mountinfo":                   "22 28 0:20 / /proc rw,nosuid - proc proc rw\n",
	}
	maps.Copy(files, change)
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// examine runs the doctor on a machine that starts no sandbox.
func examine(t *testing.T, root string, uid int) map[string]doctor.Row {
	t.Helper()
	rows, err := doctor.New(doctor.Config{
		Root: root, UID: uid, GID: uid, PID: os.Getpid(), Dir: "/home/u/project",
		Start: func(context.Context, doctor.Request) (doctor.Sandbox, error) {
			return nil, bailey.NewError(bailey.Unsupported, "no sandbox here", "buy another machine")
		},
		Temp: func() (string, func() error, error) { return "/nowhere", func() error { return nil }, nil },
	}).Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]doctor.Row{}
	for _, r := range rows {
		found[r.Layer] = r
	}
	return found
}

// TestExamine_Decides checks what is concluded from what a machine says.
func TestExamine_Decides(t *testing.T) {
	const (
		enabled  = "sys/module/apparmor/parameters/enabled"
		restrict = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
		label    = "proc/self/attr/apparmor/current"
	)
	for _, c := range []struct {
		name, layer string
		change      map[string]string
		uid         int
		want        doctor.Status
		detail, fix string
	}{
		{"no apparmor", "apparmor", nil, 1000, doctor.OK, "not active", ""},
		{"apparmor without the rule", "apparmor", map[string]string{enabled: "Y\n", restrict: "0\n"}, 1000, doctor.OK, "no rule", ""},
		{"apparmor with the rule", "apparmor", map[string]string{enabled: "Y\n", restrict: "1\n", label: "unconfined\n"}, 1000, doctor.Missing, "restricted", "apparmor_parser"},
		{"the rule and a profile", "apparmor", map[string]string{enabled: "Y\n", restrict: "1\n", label: "bailey (unconfined)\n"}, 1000, doctor.OK, "profile bailey", ""},
		{"the rule and root", "apparmor", map[string]string{enabled: "Y\n", restrict: "1\n", label: "unconfined\n"}, 0, doctor.OK, "root is not one", ""},
		{"no user namespaces", "user namespaces", map[string]string{"proc/sys/user/max_user_namespaces": "0\n"}, 1000, doctor.Missing, "user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces"},
		{"debian's switch", "user namespaces", map[string]string{"proc/sys/kernel/unprivileged_userns_clone": "0\n"}, 1000, doctor.Missing, "kernel.unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"debian's switch and root", "user namespaces", map[string]string{"proc/sys/kernel/unprivileged_userns_clone": "0\n"}, 0, doctor.OK, "", ""},
		{"an old kernel", "kernel", map[string]string{"proc/sys/kernel/osrelease": "5.10.0\n"}, 1000, doctor.Missing, "5.10.0", "5.12"},
		{"a kernel that will do", "kernel", map[string]string{"proc/sys/kernel/osrelease": "5.12.1\n"}, 1000, doctor.OK, "5.12.1", ""},
		{"a masked proc", "proc", map[string]string{"proc/self/mountinfo": "1 2 0:3 / /proc/kcore rw - tmpfs tmpfs rw\n"}, 1000, doctor.Missing, "/proc/kcore", "unmasked"},
		{"binfmt_misc masks nothing", "proc", map[string]string{"proc/self/mountinfo": "1 2 0:3 / /proc/sys/fs/binfmt_misc rw - autofs x rw\n"}, 1000, doctor.OK, "whole", ""},
		{"filters without notifications", "seccomp", map[string]string{"proc/sys/kernel/seccomp/actions_avail": "trap errno\n"}, 1000, doctor.Missing, "user_notif", "CONFIG_SECCOMP_FILTER"},
		{"no sandbox starts", "gvisor", nil, 1000, doctor.Missing, "no sandbox here", "buy another machine"},
		{"nor one in this folder", "workspace", nil, 1000, doctor.Missing, "no sandbox here", "buy another machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			row := examine(t, machine(t, c.change), c.uid)[c.layer]
			if row.Status != c.want || !strings.Contains(row.Detail, c.detail) || !strings.Contains(row.Fix, c.fix) {
				t.Errorf("got %+v, want %s, %q, %q", row, c.want, c.detail, c.fix)
			}
		})
	}
}

// TestCgroups_NamesAMendThatThisMachineHas: version 1 is delegated to nobody,
// and systemd hands on version 2 only where it runs.
func TestCgroups_NamesAMendThatThisMachineHas(t *testing.T) {
	const systemd, two = "run/systemd/system/x", "sys/fs/cgroup/cgroup.controllers"
	watched := []cgroup.Status{{Limit: cgroup.Memory, Why: "not yours"}, {Limit: cgroup.CPU, Why: "not yours"}, {Limit: cgroup.Tasks, Why: "not yours"}}
	for _, c := range []struct {
		name   string
		change map[string]string
		fix    string
	}{
		{"version 1", nil, "systemd.unified_cgroup_hierarchy=1"},
		{"version 1 with systemd", map[string]string{systemd: ""}, "systemd.unified_cgroup_hierarchy=1"},
		{"version 2", map[string]string{two: "memory pids\n"}, "let root make a cgroup"},
		{"version 2 with systemd", map[string]string{two: "memory pids\n", systemd: ""}, "systemd-run --user"},
	} {
		t.Run(c.name, func(t *testing.T) {
			row := doctor.CgroupRow(machine(t, c.change), 0, watched)
			if row.Status != doctor.Warn || !strings.Contains(row.Fix, c.fix) || strings.Contains(row.Fix, "systemd-run") != strings.Contains(c.fix, "systemd-run") {
				t.Errorf("%+v, want %q", row, c.fix)
			}
			for _, says := range []string{"memory is watched, not enforced: a watchdog", "cpu is not limited", "pids is enforced inside", "(not yours)"} {
				if !strings.Contains(row.Detail, says) {
					t.Errorf("%q does not say %q", row.Detail, says)
				}
			}
		})
	}
	row := doctor.CgroupRow(machine(t, nil), 1, []cgroup.Status{{Limit: cgroup.Memory, Enforced: true}, {Limit: cgroup.CPU, Enforced: true}})
	if row.Status != doctor.OK || row.Fix != "" || row.Detail != "version 1; enforced: memory, cpu" {
		t.Errorf("twin: all enforced: %+v", row)
	}
	row = doctor.CgroupRow(machine(t, nil), 1, []cgroup.Status{{Limit: cgroup.Memory, Enforced: true}, {Limit: cgroup.CPU, Why: "none"}})
	if row.Detail != "version 1; enforced: memory; cpu is not limited (none)" {
		t.Errorf("one of two: %+v", row)
	}
}

// TestFit: a warning keeps nothing from running, a missing layer does.
func TestFit(t *testing.T) {
	if !doctor.Fit([]doctor.Row{{Status: doctor.OK}, {Status: doctor.Warn}}) || doctor.Fit([]doctor.Row{{Status: doctor.OK}, {Status: doctor.Missing}}) {
		t.Error("only a missing layer makes a machine unfit")
	}
}

// TestExamine_Stops: a person who presses Ctrl-C gets no half a report.
func TestExamine_Stops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := doctor.New(doctor.Config{Root: machine(t, nil)}).Examine(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
