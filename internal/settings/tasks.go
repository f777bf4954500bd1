package settings

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// Tasks is what the user's own file says of tasks. What it does not say is nil.
type Tasks struct {
	Roots       []Setting[string] // folders that repositories lie in: absolute, or below "~"
	MaxParallel *Setting[int]
	MCPListen   *Setting[string] // HOST:PORT on loopback, or MCPOff
}

// MCPOff is the value of tasks.mcp_listen that has MCP not served over HTTP.
const MCPOff = "off"

// mostParallel bounds tasks.max_parallel: it is task.MostAgents, which a test
// holds.
const mostParallel = 28

func tasksSpec() *yamlfile.Spec {
	return &yamlfile.Spec{Kind: yamlfile.Mapping, Help: "What tasks may do (bailey serve); of the user's own file alone.", Keys: []yamlfile.Key{
		{Name: "roots", Spec: &yamlfile.Spec{Kind: yamlfile.List, Least: 1, Item: &yamlfile.Spec{Kind: yamlfile.Text, Help: "An absolute folder, or one below ~ (~/src)."}, Help: "Folders whose repositories may be worked on. Without it: the home folder."}},
		{Name: "max_parallel", Spec: &yamlfile.Spec{Kind: yamlfile.Number, Min: 1, Max: mostParallel, What: "a number of tasks", Help: "How many agents run at once, over all models. Without it: as many as the models allow, and 28 at most."}},
		{Name: "mcp_listen", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Help: "Where MCP is served over HTTP, HOST:PORT on loopback, or off. Without it: 127.0.0.1:8765."}},
	}}
}

// tasks takes the section out of a node that the schema holds good.
func (p *parser) tasks(n *yaml.Node) Tasks {
	var out Tasks
	for _, v := range yamlfile.Items(yamlfile.Get(n, "roots")) {
		if !filepath.IsAbs(v.Value) && v.Value != "~" && !strings.HasPrefix(v.Value, "~/") {
			p.At(v, "tasks.roots: %q is not an absolute folder; write it whole, or from ~", v.Value)
			continue
		}
		out.Roots = append(out.Roots, Setting[string]{v.Value, p.From(v)})
	}
	if v := yamlfile.Get(n, "max_parallel"); v != nil {
		most, err := strconv.Atoi(v.Value)
		if !p.Wrong(v, err) {
			out.MaxParallel = &Setting[int]{most, p.From(v)}
		}
	}
	if v := yamlfile.Get(n, "mcp_listen"); v != nil && !p.Wrong(v, CheckMCPListen(v.Value)) {
		out.MCPListen = &Setting[string]{v.Value, p.From(v)}
	}
	return out
}

// CheckMCPListen reports why MCP cannot be served over HTTP at an address.
func CheckMCPListen(address string) error {
	if address == MCPOff {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	n, perr := strconv.ParseUint(port, 10, 16)
	ip := net.ParseIP(host)
	if err != nil || perr != nil || strconv.FormatUint(n, 10) != port || ip == nil || !ip.IsLoopback() {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("%q is not an address on loopback with a port", address), "such as 127.0.0.1:8765, or "+MCPOff)
	}
	return nil
}

// Folders are the folders that tasks may work in, for a user's home folder.
func (t Tasks) Folders(home string) []string {
	if len(t.Roots) == 0 {
		return []string{filepath.Clean(home)}
	}
	var out []string
	for _, r := range t.Roots {
		dir := r.Value
		if rest, ok := strings.CutPrefix(dir, "~"); ok {
			dir = filepath.Join(home, rest)
		}
		out = append(out, filepath.Clean(dir))
	}
	return out
}

// Where says by which words the folders hold, of a user's file: the end of a
// sentence that has named them.
func (t Tasks) Where(file string) string {
	if len(t.Roots) == 0 {
		return ", the home folder, as " + file + " has no tasks.roots; name others there"
	}
	return ", by tasks.roots at " + t.Roots[0].From + "; name another there"
}

// Most is how many agents run at once; 0: any number.
func (t Tasks) Most() int {
	if t.MaxParallel == nil {
		return 0
	}
	return t.MaxParallel.Value
}

// LoadTasks reads what the user's own file says of tasks.
func LoadTasks(p Place) (Tasks, error) {
	f, err := readUser(p.UserFile())
	if err != nil || f == nil {
		return Tasks{}, err
	}
	return f.Tasks, nil
}
