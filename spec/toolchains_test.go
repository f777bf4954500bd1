package spec_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// program puts a script that says its name into the identity's home.
func program(t *testing.T, y *yard.Yard, rel, says string) {
	t.Helper()
	chmod(t, y.WriteHome(t, rel, "#!/bin/sh\necho "+says+"\n"), 0o755)
}

// homeToolchains are version managers as they lie in a home: each with the
// folder that it has the user put into PATH, a program of its own and what it
// says, and credentials beside that. All are reached by no other path.
var homeToolchains = []struct {
	name, bin, program, says string
	files                    map[string]string // of the home; "#!NAME" is a program that says NAME
	secrets                  []string
}{
	{
		name: "pyenv", bin: ".pyenv/shims", program: "snake", says: "pyenv-3.99",
		files: map[string]string{
			".pyenv/shims/snake": "#!the-shim", ".pyenv/versions/3.99/bin/snake": "#!pyenv-3.99", ".pyenv/versions/2.0/bin/snake": "#!pyenv-2.0", ".pyenv/version": "3.99\n",
		},
		secrets: []string{".pypirc", ".pyenv/plugins/token", ".pyenv/versions/2.0/bin/snake"},
	},
	{
		name: "nvm", bin: ".nvm/versions/node/v99/bin", program: "hexagon", says: "nvm-v99",
		files: map[string]string{
			".nvm/versions/node/v99/bin/hexagon": "#!nvm-v99", ".nvm/versions/node/v99/bin/node": "#!node", ".nvm/versions/node/v99/lib/x": "",
		},
		secrets: []string{".npmrc", ".nvm/versions/node/v99/etc/npmrc", ".nvm/alias/token"},
	},
	{
		name: "cargo", bin: ".cargo/bin", program: "cargo", says: "toolchain-cargo",
		files: map[string]string{
			".cargo/bin/rustup": "#!rustup", ".cargo/bin/cargo": "#!the-proxy", ".rustup/toolchains/stable-x/bin/cargo": "#!toolchain-cargo",
			".rustup/settings.toml": "default_toolchain = \"stable\"\n",
		},
		secrets: []string{".cargo/credentials.toml", ".cargo/registry/token", ".rustup/update-hashes/token"},
	},
	{
		name: "a program among others", bin: ".local/bin", program: "only-me", says: "local-bin",
		files:   map[string]string{".local/bin/only-me": "#!local-bin", ".local/lib/x": "", ".local/share/x": ""},
		secrets: []string{".local/share/keyrings/login.keyring", ".local/bin/another", ".ssh/id_ed25519"},
	},
}

// ofTheSystem reports whether the machine has a program for everybody, which a
// sandbox sees too.
func ofTheSystem(program string) bool {
	_, err := os.Stat("/usr/bin/" + program)
	return err == nil
}

// TestISO03_ToolchainsWithoutTheirCredentials runs programs out of version
// managers in the home, in a sandbox that was told of them or runs them itself.
// Without --tool they are not there; what lies beside them never is. The home
// is named as it is, and through a link.
func TestISO03_ToolchainsWithoutTheirCredentials(t *testing.T) {
	t.Attr("claim", "ISO-03")
	t.Parallel()
	for i, tc := range homeToolchains {
		t.Run(tc.name, func(t *testing.T) {
			yard.InTurn(t, i, func(t *testing.T, y *yard.Yard) {
				for _, rel := range slices.Sorted(maps.Keys(tc.files)) {
					if says, ok := strings.CutPrefix(tc.files[rel], "#!"); ok {
						program(t, y, rel, says)
						continue
					}
					y.WriteHome(t, rel, tc.files[rel])
				}
				linked := filepath.Join(base(y), "linked-home")
				if err := os.Symlink("home", linked); err != nil {
					t.Fatal(err)
				}
				var tries []try
				for _, home := range []string{y.Home, linked} {
					for _, rel := range tc.secrets {
						if _, own := tc.files[rel]; !own {
							y.WriteHome(t, rel, "canary")
						}
						tries = append(tries, try{Name: home + "/" + rel, Op: "read", Path: filepath.Join(home, rel)})
					}
				}
				for _, home := range []string{y.Home, linked} {
					use := func(c *exec.Cmd) {
						c.Env = append(c.Env, "HOME="+home, "PATH="+filepath.Join(home, tc.bin)+":/usr/bin:/bin")
					}
					for name, args := range map[string][]string{
						"as the command": {"run", "--quiet", "--", tc.program},
						"with --tool":    {"run", "--quiet", "--tool", tc.program, "--", "sh", "-c", tc.program},
					} {
						if r := y.RunWith(t, use, args...).OK(t); r.Stdout != tc.says+"\n" {
							t.Errorf("%s, home %s: said %q, want %s", name, home, r.Stdout, tc.says)
						}
					}
					if r := y.RunWith(t, use, "run", "--quiet", "--", "sh", "-c", tc.program); strings.Contains(r.Stdout, tc.says) || r.Code != 127 && !ofTheSystem(tc.program) {
						t.Errorf("without --tool, home %s: ended with %d and said %q", home, r.Code, r.Stdout)
					}
					for name, o := range inside(t, y, tries, use, "--tool", tc.program) {
						if o.ok() {
							t.Errorf("with --tool, home %s: %s was read: %q", home, name, o.got)
						}
					}
				}
				for name, o := range natively(t, y, tries) {
					if !o.ok() || o.got == "" {
						t.Errorf("the twin of %s fails natively: %v", name, o)
					}
				}
			})
		})
	}
}
