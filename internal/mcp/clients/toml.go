package clients

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

const codexTable = "mcp_servers"

// codexMerge is for Codex: a table of the server's own. Written by version
// 0.171.0.
func codexMerge(old []byte, s Server) ([]byte, error) {
	entry := codexEntry(s)
	if len(strings.TrimSpace(string(old))) == 0 {
		return []byte(entry), nil
	}
	var before, add map[string]any
	if err := toml.Unmarshal(old, &before); err != nil {
		return nil, refuse("it is no TOML (" + err.Error() + ")")
	}
	if err := toml.Unmarshal([]byte(entry), &add); err != nil {
		return nil, fmt.Errorf("decode entry: %w", err)
	}
	want := serversOf(add)[Name]
	servers := serversOf(before)
	if _, there := before[codexTable]; there && servers == nil || patterns().oneLine.Match(old) {
		return nil, refuse(codexTable + " in it is no table of its own lines")
	}
	if reflect.DeepEqual(servers[Name], want) {
		return old, nil
	}
	out := withoutTable(string(old)) + "\n" + entry
	if servers == nil {
		servers = map[string]any{}
	}
	servers[Name] = want
	before[codexTable] = servers
	var after map[string]any
	if err := toml.Unmarshal([]byte(out), &after); err != nil || !reflect.DeepEqual(before, after) {
		return nil, refuse("something else in it would have changed; is a line in it that looks like a table, and is none?")
	}
	return []byte(out), nil
}

func serversOf(config map[string]any) map[string]any {
	servers, ok := config[codexTable].(map[string]any)
	if !ok {
		return nil
	}
	return servers
}

func codexEntry(s Server) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s.%s]\n", codexTable, Name)
	if s.URL != "" {
		fmt.Fprintf(&b, "url = %s\n", tomlString(s.URL))
		fmt.Fprintf(&b, "http_headers = { Authorization = %s }\n", tomlString("Bearer "+s.Token))
	} else {
		fmt.Fprintf(&b, "command = %s\n", tomlString(s.Command))
		fmt.Fprintf(&b, "args = [\"mcp\"]\n")
		if len(s.Env) > 0 {
			var pairs []string
			for _, v := range s.Env {
				pairs = append(pairs, v.Name+" = "+tomlString(v.Value))
			}
			fmt.Fprintf(&b, "env = { %s }\n", strings.Join(pairs, ", "))
		}
		fmt.Fprintf(&b, "startup_timeout_sec = %d\n", int(startTime.Seconds()))
	}
	fmt.Fprintf(&b, "tool_timeout_sec = %d\n", int(toolTime.Seconds()))
	return b.String()
}

// tomlString quotes a text (TOML 1.0, "String"): what JSON and it have in
// common.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			b.WriteString(`\u` + fmt.Sprintf("%04X", r))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// lines are what the text of a configuration is searched with.
type lines struct {
	ours, header *regexp.Regexp
	// oneLine is an inline table, to which nothing may be added elsewhere
	// (TOML 1.0, "Inline Table"); not every reader says so.
	oneLine *regexp.Regexp
}

// patterns are compiled by who needs them.
var patterns = sync.OnceValue(func() lines {
	return lines{
		ours:    regexp.MustCompile(`^\s*\[\s*` + codexTable + `\s*\.\s*(` + Name + `|` + strconv.Quote(Name) + `)\s*(\.[^\]]*)?\]\s*(#.*)?$`),
		header:  regexp.MustCompile(`^\s*\[`),
		oneLine: regexp.MustCompile(`(?m)^\s*["']?` + codexTable + `["']?\s*=`),
	}
})

// withoutTable takes out the table of bailey's own and those below it, with the
// lines up to the next table's: all but comments at their end, which belong to
// that one. What it reads wrongly is found by comparing the values.
func withoutTable(text string) string {
	var out, tail []string
	inside := false
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case patterns().ours.MatchString(line):
			inside, tail = true, nil
		case !inside:
			out = append(out, line)
		case patterns().header.MatchString(line):
			out = append(append(out, tail...), line)
			inside, tail = false, nil
		case strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#"):
			tail = append(tail, line)
		default:
			tail = nil
		}
	}
	rest := strings.TrimRight(strings.Join(append(out, tail...), "\n"), "\n") + "\n"
	if !strings.HasPrefix(text, "\n") {
		rest = strings.TrimLeft(rest, "\n")
	}
	return rest
}
