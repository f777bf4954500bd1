package policy_test

import (
	"encoding/binary"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"

	"github.com/bailey-dev/bailey/internal/policy"
)

var updateSuffixes = flag.Bool("update-suffixes", false, "write suffixes.go again")

func TestParseRule_WildcardsThatLetInAnybody(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"github.io", "amazonaws.com", "s3.amazonaws.com", "eu-west-1.amazonaws.com", "elb.amazonaws.com",
		"compute.amazonaws.com", "rds.amazonaws.com", "run.app", "a.run.app", "web.app", "firebaseio.com",
		"linodeobjects.com", "vultrobjects.com", "backblazeb2.com", "digitaloceanspaces.com", "windows.net",
		"core.windows.net", "blob.core.windows.net", "fastly.net", "storage.googleapis.com", "nip.io", "co.uk",
		"kawasaki.jp", "vercel.app", "netlify.app", "workers.dev", "pages.dev", "r2.dev", "on.aws",
	} {
		if r, err := policy.ParseRule("*." + host); err == nil || !strings.Contains(err.Error(), "below "+host) {
			t.Errorf("*.%s: %v, %v; want a refusal", host, r, err)
		}
		if _, err := policy.ParseRule("my-site." + host); err != nil { // the twin, and what the hint says
			t.Errorf("my-site.%s: %v", host, err)
		}
		if _, err := policy.ParseDenyRule("*." + host); err != nil {
			t.Errorf("deny *.%s: %v", host, err)
		}
	}
	for _, host := range []string{
		"example.com", "example.co.uk", "my-site.github.io", "my-bucket.s3.amazonaws.com", "example.org", "example.net",
		"api.anthropic.com", "openai.com", "city.kawasaki.jp", "debian.org", "golang.org",
	} {
		if _, err := policy.ParseRule("*." + host); err != nil {
			t.Errorf("*.%s: %v", host, err)
		}
	}
}

// TestSuffixes_AreThoseAboveTheList reads the table of the module that is
// linked, whose functions cannot be asked what lies below a name, and compares
// suffixes.go with it.
func TestSuffixes_AreThoseAboveTheList(t *testing.T) {
	t.Parallel()
	names := namesAbove(t)
	if len(names) < 100 || !slices.Contains(names, "eu-west-1.amazonaws.com") || slices.Contains(names, "github.io") {
		t.Fatalf("the table is not read well: %d names", len(names))
	}
	want := "package policy\n\n// aboveSuffixes are the names of several labels that are no public suffix\n" +
		"// themselves, and below which there is one: strangers have names there too.\n" +
		"// TestSuffixes_AreThoseAboveTheList writes them, from the list in\n// golang.org/x/net/publicsuffix.\n" +
		"const aboveSuffixes = `\n" + strings.Join(names, "\n") + "\n`\n"
	if *updateSuffixes {
		if err := os.WriteFile("suffixes.go", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("suffixes.go"); err != nil || string(got) != want {
		t.Errorf("suffixes.go is not what the list says (%v): go test ./internal/policy -run Suffixes -update-suffixes", err)
	}
}

// suffixTable is the compiled list (golang.org/x/net/publicsuffix/table.go).
type suffixTable struct {
	text            string
	nodes, children []byte
	found           []string
}

func namesAbove(t *testing.T) []string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/net").Output()
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "publicsuffix", "data", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	table := suffixTable{text: string(read("text")), nodes: read("nodes"), children: read("children")}
	topLevel := uint32(0)
	for label := ""; ; topLevel++ { // the top-level domains stand first, in order
		next, _ := table.node(topLevel)
		if next <= label {
			break
		}
		label = next
	}
	table.walk(0, topLevel, "")
	slices.Sort(table.found)
	return table.found
}

// node returns the label of a node, and its row in the table of children.
func (s *suffixTable) node(i uint32) (label string, row uint32) {
	x := binary.BigEndian.Uint64(append([]byte{0, 0, 0}, s.nodes[i*5:i*5+5]...))
	offset, length := x>>6&(1<<16-1), x&(1<<6-1)
	children := x >> 23 & (1<<10 - 1)
	return s.text[offset : offset+length], binary.BigEndian.Uint32(s.children[children*4:])
}

// walk notes the names between two nodes, and below them, that have children
// and are no suffix, unless a rule with a star tells of them.
func (s *suffixTable) walk(low, high uint32, parent string) {
	for i := low; i < high; i++ {
		label, row := s.node(i)
		name := strings.TrimSuffix(label+"."+parent, ".")
		first, last, wildcard := row&(1<<14-1), row>>14&(1<<14-1), row>>30&1 == 1
		suffix, _ := publicsuffix.PublicSuffix(name)
		if first < last && strings.Contains(name, ".") && suffix != name && !wildcard {
			s.found = append(s.found, name)
		}
		s.walk(first, last, name)
	}
}
