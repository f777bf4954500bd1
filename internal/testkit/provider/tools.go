package provider

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tool is one that the agent offered.
type tool struct {
	Name      string
	Namespace string   // of the Responses dialect; empty mostly
	Custom    bool     // takes free text instead of a JSON object
	Params    []string // of the object, where the agent told them
}

// schema is what is read of a tool's parameters.
type schema struct {
	Properties map[string]json.RawMessage `json:"properties"`
}

func (s schema) names() []string { return slices.Sorted(maps.Keys(s.Properties)) }

// takes reports whether a tool has parameters of these names. One that tells
// none may have any.
func (t tool) takes(args map[string]any) bool {
	if len(t.Params) == 0 {
		return true
	}
	for name := range args {
		if !slices.Contains(t.Params, name) {
			return false
		}
	}
	return true
}

// toolCall is a call in the words of the agent's own tools.
type toolCall struct {
	ID        string
	Name      string
	Namespace string
	Custom    bool
	Input     string // a JSON object, or free text if Custom
}

type toolbox []tool

func (b toolbox) find(name string) (tool, bool) {
	for _, t := range b {
		if t.Name == name {
			return t, true
		}
	}
	return tool{}, false
}

// shells are the names agents give the tool that runs a command line.
func shells() []string {
	return []string{"Bash", "bash", "exec_command", "shell_command", "exec", "run_shell_command"}
}

// canWork reports whether the agent offered a shell: every working request of
// a coding agent does, and no side request.
func (b toolbox) canWork() bool {
	for _, name := range shells() {
		if _, ok := b.find(name); ok {
			return true
		}
	}
	return false
}

// call puts a scripted call in the words of the tools on offer.
func (b toolbox) call(id string, c Call) (toolCall, error) {
	switch c.Kind {
	case KindShell:
		return b.shell(id, c.Command)
	case KindRead:
		if tc, ok := b.first(id, reads(c.Path)); ok {
			return tc, nil
		}
		return b.shell(id, "cat "+quote(c.Path))
	case KindEdit:
		if tc, ok := b.first(id, edits(c)); ok {
			return tc, nil
		}
		return b.patch(id, "*** Update File: "+c.Path+"\n@@\n"+prefix("-", c.Old)+prefix("+", c.New))
	case KindWrite:
		if tc, ok := b.first(id, writes(c)); ok {
			return tc, nil
		}
		return b.patch(id, "*** Add File: "+c.Path+"\n"+prefix("+", c.New))
	case KindPlan:
		if tc, ok := b.first(id, plans(c.Items)); ok {
			return tc, nil
		}
		return b.shell(id, "true")
	}
	return toolCall{}, fmt.Errorf("script has a call of unknown kind %d", c.Kind)
}

// use is one way that agents name a tool and its parameters.
type use struct {
	name string
	args map[string]any
}

func reads(path string) []use {
	return []use{
		{"Read", map[string]any{"file_path": path}},
		{"read", map[string]any{"filePath": path}},
		{"read", map[string]any{"path": path}},
		{"read_file", map[string]any{"file_path": path}},
		{"view", map[string]any{"path": path}},
	}
}

func edits(c Call) []use {
	return []use{
		{"Edit", map[string]any{"file_path": c.Path, "old_string": c.Old, "new_string": c.New}},
		{"edit", map[string]any{"filePath": c.Path, "oldString": c.Old, "newString": c.New}},
		{"edit", map[string]any{"file_path": c.Path, "old_string": c.Old, "new_string": c.New}},
		{"edit", map[string]any{"path": c.Path, "old_str": c.Old, "new_str": c.New}},
		{"edit", map[string]any{"path": c.Path, "edits": []any{map[string]any{"oldText": c.Old, "newText": c.New}}}},
		{"replace", map[string]any{"file_path": c.Path, "instruction": why, "old_string": c.Old, "new_string": c.New}},
		{"replace", map[string]any{"file_path": c.Path, "old_string": c.Old, "new_string": c.New}},
	}
}

func writes(c Call) []use {
	return []use{
		{"Write", map[string]any{"file_path": c.Path, "content": c.New}},
		{"write", map[string]any{"filePath": c.Path, "content": c.New}},
		{"write", map[string]any{"path": c.Path, "content": c.New}},
		{"write_file", map[string]any{"file_path": c.Path, "content": c.New}},
		{"create", map[string]any{"path": c.Path, "file_text": c.New}},
	}
}

func plans(items []string) []use {
	list := func(text, more string, value func(status string) any) []any {
		var out []any
		for i, item := range items {
			status := "pending"
			if i == 0 {
				status = "in_progress"
			}
			entry := map[string]any{text: item, "status": status}
			if more != "" {
				entry[more] = value(item)
			}
			out = append(out, entry)
		}
		return out
	}
	same := func(item string) any { return item }
	return []use{
		{"TodoWrite", map[string]any{"todos": list("content", "activeForm", same)}},
		{"todowrite", map[string]any{"todos": list("content", "priority", func(string) any { return "high" })}},
		{"write_todos", map[string]any{"todos": list("description", "", nil)}},
		{"update_plan", map[string]any{"plan": list("step", "", nil)}},
	}
}

func runs(command string) []use {
	return []use{
		{"Bash", map[string]any{"command": command, "description": why}},
		{"bash", map[string]any{"command": command, "description": why}},
		{"bash", map[string]any{"command": command}},
		{"exec_command", map[string]any{"cmd": command, "yield_time_ms": 30000}},
		{"shell_command", map[string]any{"command": command}},
		{"run_shell_command", map[string]any{"command": command, "description": why, "is_background": false}},
		{"run_shell_command", map[string]any{"command": command, "description": why}},
	}
}

// why is what calls give as their reason, where a tool wants one.
const why = "scripted"

// first makes the call in the first way that fits a tool on offer.
func (b toolbox) first(id string, ways []use) (toolCall, bool) {
	for _, w := range ways {
		if tc, ok := b.object(id, w.name, w.args); ok {
			return tc, true
		}
	}
	return toolCall{}, false
}

func (b toolbox) shell(id, command string) (toolCall, error) {
	if tc, ok := b.first(id, runs(command)); ok {
		return tc, nil
	}
	return b.script(id, "exec_command", map[string]any{"cmd": command, "yield_time_ms": 30000})
}

// patch uses the agent's tool for patches: Codex's takes free text, opencode's
// an object with the same text, and a shell of Codex's takes it as a command.
func (b toolbox) patch(id, hunk string) (toolCall, error) {
	text := "*** Begin Patch\n" + hunk + "*** End Patch\n"
	t, ok := b.find("apply_patch")
	switch {
	case ok && t.Custom:
		return toolCall{ID: id, Name: t.Name, Namespace: t.Namespace, Custom: true, Input: text}, nil
	case ok:
		tc, _ := b.object(id, "apply_patch", map[string]any{"patchText": text})
		return tc, nil
	}
	if _, ok := b.find("exec_command"); ok {
		// Codex, with a model that it does not know: it reads this command.
		return b.shell(id, "apply_patch <<'EOF'\n"+text+"EOF\n")
	}
	return b.script(id, "apply_patch", text)
}

// script calls a tool from the JavaScript cell that Codex offers to the newer
// models instead of the tools themselves.
func (b toolbox) script(id, name string, arg any) (toolCall, error) {
	t, ok := b.find("exec")
	if !ok {
		return toolCall{}, fmt.Errorf("agent offers no tool for %s; it offers %s", name, b)
	}
	j, err := json.Marshal(arg)
	if err != nil {
		return toolCall{}, fmt.Errorf("encode argument of %s: %w", name, err)
	}
	code := fmt.Sprintf("const r = await tools.%s(%s);\ntext(typeof r === 'string' ? r : JSON.stringify(r));\n", name, j)
	return toolCall{ID: id, Name: t.Name, Namespace: t.Namespace, Custom: t.Custom, Input: code}, nil
}

func (b toolbox) object(id, name string, args map[string]any) (toolCall, bool) {
	t, ok := b.find(name)
	if !ok || t.Custom || !t.takes(args) {
		return toolCall{}, false
	}
	j, err := json.Marshal(args)
	if err != nil {
		return toolCall{}, false
	}
	return toolCall{ID: id, Name: t.Name, Namespace: t.Namespace, Input: string(j)}, true
}

// String lists the names, for messages.
func (b toolbox) String() string {
	names := make([]string, len(b))
	for i, t := range b {
		names[i] = t.Name
	}
	return strings.Join(names, ", ")
}

// prefix puts a sign before each line and ends the last.
func prefix(sign, text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString(sign + line + "\n")
	}
	return b.String()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
