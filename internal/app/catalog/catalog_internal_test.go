package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
)

const someModels = `
default: small
providers:
  local: {kind: anthropic, base_url: "http://127.0.0.1:9", key: {secret: some-key}}
models:
  small: {provider: local, name: small-1, max_agents: 2, budget: {task: 1M}, price: {input: 0.25, output: 1.25, cache_read: 0, cache_write: 0}}
`

func say(t *testing.T, text, path string) launcher.Catalog {
	t.Helper()
	home := t.TempDir()
	if text != "" {
		if err := os.WriteFile(filepath.Join(home, "models.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings, err := json.Marshal(launcher.CatalogSettings{Config: home, Home: home, Models: true})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	env := func(name string) (string, bool) { return path, name == "PATH" }
	if err := answer(bytes.NewReader(settings), &out, env); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "some-key") {
		t.Errorf("it names a key: %s", out.String())
	}
	var c launcher.Catalog
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestList(t *testing.T) {
	t.Parallel()
	c := say(t, someModels, "")
	if c.Error != nil || len(c.Models) != 1 {
		t.Fatalf("%+v", c.Error)
	}
	m := c.Models[0]
	if got := fmt.Sprint(m.ID, m.Default, m.MaxAgents, m.Budget, *m.Price); got != "smalltrue 2 [task 1M] {0.25 1.25 0 0}" {
		t.Error(got)
	}
	if m.Harnesses == nil {
		t.Error("no list of agents")
	}
}

// TestList_AgentsThatAreInstalled: one is found where PATH leads.
func TestList_AgentsThatAreInstalled(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	self, err := os.ReadFile("/proc/self/exe") // any ELF file
	if err != nil {
		t.Fatal(err)
	}
	before := say(t, someModels, "/nowhere").Models[0]
	without := before.Harnesses
	missing := task.Installable{Harness: "claude", Install: "npm install -g @anthropic-ai/claude-code"}
	if !slices.Contains(without, "claude") && !slices.Contains(before.Installable, missing) {
		t.Errorf("how to install it is not said: %+v", before)
	}
	if err := os.WriteFile(filepath.Join(bin, "claude"), self, 0o700); err != nil {
		t.Fatal(err)
	}
	if with := say(t, someModels, bin).Models[0]; !slices.Contains(with.Harnesses, "claude") || slices.Contains(with.Installable, missing) {
		t.Errorf("found %+v; without it %v", with, without)
	}
}

func TestList_WhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	if c := say(t, "modells: {}\n", ""); c.Error == nil || c.Error.Kind != "invalid" || !strings.Contains(c.Error.Message, ":1:1") {
		t.Errorf("%+v", c.Error)
	}
	if c := say(t, "", ""); c.Error != nil || len(c.Models) != 0 {
		t.Errorf("twin: no file is no models: %+v", c)
	}
}
