package userns_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/linux/userns"
)

func TestSwitches_Restriction(t *testing.T) {
	t.Parallel()
	const (
		most     = "proc/sys/user/max_user_namespaces"
		clone    = "proc/sys/kernel/unprivileged_userns_clone"
		enabled  = "sys/module/apparmor/parameters/enabled"
		restrict = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
		label    = "proc/self/attr/apparmor/current"
	)
	for name, c := range map[string]struct {
		files     map[string]string
		uid       int
		what, fix string
	}{
		"none":                        {map[string]string{most: "15000", clone: "1"}, 1000, "", ""},
		"no namespaces":               {map[string]string{most: "0"}, 1000, "max_user_namespaces is 0", "user.max_user_namespaces=15000"},
		"no namespaces, not for root": {map[string]string{most: "0"}, 0, "max_user_namespaces is 0", "user.max_user_namespaces=15000"},
		"not for users":               {map[string]string{clone: "0"}, 1000, "unprivileged_userns_clone is 0", "kernel.unprivileged_userns_clone=1"},
		"not for users, but for root": {map[string]string{clone: "0"}, 0, "", ""},
		"a rule":                      {map[string]string{enabled: "Y", restrict: "1", label: "unconfined"}, 1000, "AppArmor", "apparmor_parser"},
		"a rule, root":                {map[string]string{enabled: "Y", restrict: "1", label: "unconfined"}, 0, "", ""},
		"a rule and a profile":        {map[string]string{enabled: "Y", restrict: "1", label: "bailey (unconfined)"}, 1000, "", ""},
		"a rule of what is off":       {map[string]string{enabled: "N", restrict: "1"}, 1000, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for file, text := range c.files {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			what, fix := userns.Switches{Root: root, UID: c.uid}.Restriction()
			if !strings.Contains(what, c.what) || !strings.Contains(fix, c.fix) || (c.what == "") != (what == "") {
				t.Errorf("got %q, %q", what, fix)
			}
		})
	}
}
