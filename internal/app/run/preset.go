package run

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/rootfs"
)

// findPreset finds what the agents of a run need: the one that its command
// names, and with a model those that --tool names. A file of such a name in the
// workspace is reached by a path (./claude), as everywhere.
func findPreset(h Host, r *Request, workspace string, env []string, model *modelPlan) (harness.Preset, error) {
	passed := map[string]string{}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		passed[name] = value
	}
	host := harness.Host{
		Arch: runtime.GOARCH, Home: h.Home, Path: filepath.SplitList(h.Env.Get("PATH")),
		Workspace: workspace, Env: passed, Files: harness.OS{}, Model: model.harness(),
	}
	var preset harness.Preset
	if r.Preset && harness.Known(r.Command[0]) {
		found, err := harness.Find(r.Command[0], host)
		if err != nil {
			return harness.Preset{}, err
		}
		preset = found
	}
	for _, name := range r.agentTools(model) {
		found, err := harness.Find(name, host)
		if err != nil {
			return harness.Preset{}, err
		}
		preset = preset.With(found.AsTool())
	}
	return preset, nil
}

// agentTools are the agents that a run's command will start by name, which are
// to find its model. Without a model --tool shows an agent's program alone: its
// settings would open a network that nobody asked for.
func (r *Request) agentTools(model *modelPlan) []string {
	if model == nil {
		return nil
	}
	var names []string
	for _, name := range r.Tools {
		if harness.Known(name) && (!r.Preset || name != r.Command[0]) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// tools finds what the command and each --tool need of the caller's own
// programs. An agent that has a launcher needs its folder in PATH alone.
func (p *plan) tools(h Host, r *Request, ws string, preset harness.Preset, launched []string) ([]rootfs.Tool, error) {
	finder := rootfs.Resolver{Home: h.Home, Cwd: h.Dir, Workspace: ws, Env: h.Env.Get}
	var out []rootfs.Tool
	if len(launched) > 0 {
		out = append(out, rootfs.Tool{Name: "agents", Path: []string{harness.Bin}})
	}
	if preset.Name == "" && !slices.Contains(launched, r.Command[0]) {
		found, err := finder.Command(r.Command[0])
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	for _, name := range r.Tools {
		if slices.Contains(launched, name) {
			continue
		}
		found, err := finder.Named(name)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	if r.Work != nil {
		found, err := programs(finder, r.Work.Programs, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	found, err := p.environmentTools(finder, append([]string{r.Command[0]}, r.Tools...))
	return append(out, found...), err // last: what it says of variables holds
}
