package clients_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"github.com/tailscale/hujson"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/mcp/clients"
)

var (
	stdio = clients.Server{Command: "/opt/b \"in\"/bailey"}
	moved = clients.Server{Command: "/b", Env: []clients.Variable{{"XDG_STATE_HOME", "/s"}, {"XDG_RUNTIME_DIR", "/r \"x\""}}}
	http  = clients.Server{URL: "http://127.0.0.1:8765/mcp", Token: "blm-XYZ"}
)

func find(tb testing.TB, name string) clients.Client {
	tb.Helper()
	c, err := clients.Find(name)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func merge(t *testing.T, client, old string, s clients.Server) string {
	t.Helper()
	out, err := find(t, client).Merge([]byte(old), s)
	if err != nil {
		t.Fatalf("%s: %v", client, err)
	}
	return string(out)
}

// TestEntry: what stands in a configuration that was empty.
func TestEntry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		client string
		server clients.Server
		want   string
	}{
		{"claude", stdio, `{
  "mcpServers": {
    "bailey": {
      "type": "stdio",
      "command": "/opt/b \"in\"/bailey",
      "args": [
        "mcp"
      ],
      "timeout": 18000000
    }
  }
}
`},
		{"claude", http, `{
  "mcpServers": {
    "bailey": {
      "type": "http",
      "url": "http://127.0.0.1:8765/mcp",
      "headers": {
        "Authorization": "Bearer blm-XYZ"
      },
      "timeout": 18000000
    }
  }
}
`},
		{"codex", stdio, `[mcp_servers.bailey]
command = "/opt/b \"in\"/bailey"
args = ["mcp"]
startup_timeout_sec = 30
tool_timeout_sec = 18000
`},
		{"codex", moved, `[mcp_servers.bailey]
command = "/b"
args = ["mcp"]
env = { XDG_STATE_HOME = "/s", XDG_RUNTIME_DIR = "/r \"x\"" }
startup_timeout_sec = 30
tool_timeout_sec = 18000
`},
		{"opencode", moved, `{
  "mcp": {
    "bailey": {
      "type": "local",
      "command": [
        "/b",
        "mcp"
      ],
      "environment": {
        "XDG_STATE_HOME": "/s",
        "XDG_RUNTIME_DIR": "/r \"x\""
      },
      "enabled": true,
      "timeout": 18000000
    }
  }
}
`},
		{"codex", http, `[mcp_servers.bailey]
url = "http://127.0.0.1:8765/mcp"
http_headers = { Authorization = "Bearer blm-XYZ" }
tool_timeout_sec = 18000
`},
		{"gemini", http, `{
  "mcpServers": {
    "bailey": {
      "httpUrl": "http://127.0.0.1:8765/mcp",
      "headers": {
        "Authorization": "Bearer blm-XYZ"
      },
      "timeout": 18000000
    }
  }
}
`},
		{"opencode", stdio, `{
  "mcp": {
    "bailey": {
      "type": "local",
      "command": [
        "/opt/b \"in\"/bailey",
        "mcp"
      ],
      "enabled": true,
      "timeout": 18000000
    }
  }
}
`},
	} {
		got, err := find(t, tc.client).Entry(tc.server)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.client, diff)
		}
	}
}

// TestMerge_KeepsWhatIsThere: comments, order, other servers; and twice is as
// once.
func TestMerge_KeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, client, old, want string }{
		{"no servers yet", "opencode", "{\n\t// mine\n\t\"theme\": \"x\", // good\n}\n", "{\n\t// mine\n\t\"theme\": \"x\", // good\n\t\"mcp\": {\n\t\t\"bailey\": {\n\t\t\t\"type\": \"local\",\n\t\t\t\"command\": [\n\t\t\t\t\"/opt/b \\\"in\\\"/bailey\",\n\t\t\t\t\"mcp\"\n\t\t\t],\n\t\t\t\"enabled\": true,\n\t\t\t\"timeout\": 18000000\n\t\t}\n\t}\n}\n"},
		{"another server", "gemini", `{
  "a": 1.0, /* one */
  "mcpServers": {
    "other": {"command": "x"} // keep
  },
  "z": 12345678901234567890
}
`, `{
  "a": 1.0, /* one */
  "mcpServers": {
    "other": {"command": "x"}, // keep
    "bailey": {
      "command": "/opt/b \"in\"/bailey",
      "args": [
        "mcp"
      ],
      "timeout": 18000000
    }
  },
  "z": 12345678901234567890
}
`},
		{"an older entry", "claude", `{
  "mcpServers": {
    "bailey": {"command": "old", "env": {"A": "B"}},
    "other": {}
  }
}`, `{
  "mcpServers": {
    "bailey": {
      "type": "stdio",
      "command": "/opt/b \"in\"/bailey",
      "args": [
        "mcp"
      ],
      "timeout": 18000000
    },
    "other": {}
  }
}`},
		{"TOML", "codex", `# mine
model = "x" # good

[mcp_servers.other]
command = "y"
`, `# mine
model = "x" # good

[mcp_servers.other]
command = "y"

[mcp_servers.bailey]
command = "/opt/b \"in\"/bailey"
args = ["mcp"]
startup_timeout_sec = 30
tool_timeout_sec = 18000
`},
		{"an older table", "codex", `[mcp_servers."bailey"] # was
command = "old"
[mcp_servers.bailey.env]
A = "B"

# about the next
[tui]
theme = "z"
`, `# about the next
[tui]
theme = "z"

[mcp_servers.bailey]
command = "/opt/b \"in\"/bailey"
args = ["mcp"]
startup_timeout_sec = 30
tool_timeout_sec = 18000
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := merge(t, tc.client, tc.old, stdio)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := merge(t, tc.client, got, stdio); again != got {
				t.Errorf("twice is not as once:\n%s", again)
			}
			back := merge(t, tc.client, merge(t, tc.client, got, http), stdio)
			if twice := merge(t, tc.client, back, stdio); twice != back {
				t.Errorf("there and back:\n%s", back)
			}
		})
	}
}

// TestMerge_Refuses: what cannot be changed without changing more stays.
func TestMerge_Refuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, client, old string }{
		{"no JSON", "claude", "{"},
		{"a list", "claude", "[]"},
		{"null", "claude", "null"},
		{"two values", "claude", "{} {}"},
		{"servers are a list", "claude", `{"mcpServers": []}`},
		{"servers are null", "claude", `{"mcpServers": null}`},
		{"servers twice", "claude", `{"mcpServers": {"a": {}}, "mcpServers": {"b": {}}}`},
		{"no TOML", "codex", "= 1"},
		{"servers on one line", "codex", `mcp_servers = { other = { command = "x" } }`},
		{"servers are a text", "codex", `mcp_servers = "x"`},
		{"dotted names", "codex", "mcp_servers.bailey.command = \"x\"\n"},
		{"a text with a table in it", "codex", "[mcp_servers.bailey]\ncommand = \"x\"\nargs = [\"\"\"\n[other]\n\"\"\"]\n"},
	} {
		out, err := find(t, tc.client).Merge([]byte(tc.old), stdio)
		if bailey.KindOf(err) != bailey.Conflict || out != nil {
			t.Errorf("%s: %v\n%s", tc.name, err, out)
		}
	}
	if _, err := clients.Find("emacs"); bailey.KindOf(err) != bailey.Invalid {
		t.Errorf("emacs: %v", err)
	}
}

// TestPaths: where each client's configuration is, and what moves it.
func TestPaths(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	commented := false
	h := clients.Host{Home: "/home/me", Env: func(n string) string { return env[n] }, Exists: func(string) bool { return commented }}
	paths := func() []string {
		var out []string
		for _, n := range clients.Names() {
			out = append(out, find(t, n).Path(h))
		}
		return out
	}
	want := []string{"/home/me/.claude.json", "/home/me/.codex/config.toml", "/home/me/.gemini/settings.json", "/home/me/.config/opencode/opencode.json"}
	if got := paths(); !slices.Equal(got, want) {
		t.Errorf("paths %q", got)
	}
	commented = true
	env = map[string]string{"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "GEMINI_CLI_HOME": "relative", "XDG_CONFIG_HOME": "/cfg"}
	want = []string{"/c/.claude.json", "/x/config.toml", "/home/me/.gemini/settings.json", "/cfg/opencode/opencode.jsonc"}
	if got := paths(); !slices.Equal(got, want) {
		t.Errorf("paths %q", got)
	}
}

// FuzzMerge: no file breaks it, and what comes out is whole.
func FuzzMerge(f *testing.F) {
	for _, seed := range []string{"{}", `{"mcpServers":{"bailey":1,},}`, "{/*x*/}", "[mcp_servers.bailey]\n", "a=1\n[b]\n", `{"mcp":{}}`, "# only\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, old []byte) {
		for _, name := range clients.Names() {
			out, err := find(t, name).Merge(old, stdio)
			if err != nil {
				continue
			}
			if again, err := find(t, name).Merge(out, stdio); err != nil || string(again) != string(out) {
				t.Fatalf("%s: twice is not as once: %v\n%s", name, err, again)
			}
			var v map[string]any
			if name == "codex" {
				err = toml.Unmarshal(out, &v)
			} else if plain, e := hujson.Standardize(slices.Clone(out)); e == nil {
				err = json.Unmarshal(plain, &v)
			}
			if err != nil || !strings.Contains(string(out), "bailey") {
				t.Fatalf("%s: %v\n%s", name, err, out)
			}
		}
	})
}
