package spec_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A caseTable is a page with a row for each of a fixed list of cases.
type caseTable struct {
	file, mark string // the page, and the word in the marks around its tables
	cases      []partCases
	saysCase   bool // a test says the cases that it is for
}

type partCases struct{ part, ids string }

var (
	attackTable = caseTable{"../docs/attacks.md", "attacks", attackCases, true}
	reportTable = caseTable{"../docs/reports.md", "reports", reportCases, false}
)

// reportCases is the fixed list of what users of other sandboxes reported.
var reportCases = []partCases{
	{"Terminal, signals, processes", "A1 A2 A3 A5 A6 A7 A9 A10 A11"},
	{"Files, git, ownership", "B1 B2 B3 B5 B6 B7 B9 B10 B11 B13 B14 B15 B17 B18"},
	{"Network and tools", "C1 C2 C3 C5 C6 C7 C9 C10 C11 C13 C14 C15 C17 C18"},
	{"Logins, MCP, browsers, clipboard", "D1 D2 D3 D5 D6 D7 D9"},
	{"Ways around the sandbox", "E1 E2 E3 E5 E6 E7 E9 E10 E11 E13 E14 E15 E17"},
	{"Platform, speed, use", "F1 F2 F3 F5 F6 F7 F9 F10 F11"},
}

// attackCases is the fixed list of cases: for each part of docs/attacks.md
// those that need a row. A case is never dropped; a new one gets a new number.
var attackCases = []partCases{
	{"Which host is meant", "A001 A002 A004 A005 A006 A008 A009 A010 A012 A013 A014 A016 A017 A018 A020 A021 A022 A024 A025 A026 A028 A029 A030 A032 A033 A034 A036 A037 A038 A040"},
	{"Matching", "A041 A042 A044 A045 A046 A048 A049 A050 A050b A050c A050d A050e"},
	{"Addresses", "A052 A053 A054 A056 A057 A058 A060 A061 A062 A064 A065 A066 A068 A069 A070 A072 A073 A074"},
	{"DNS", "A076 A077 A078 A080 A081 A082 A084 A085 A086 A088 A089 A090 A092 A093 A094 A096 A097 A098 A100 A101 A102"},
	{"Packets, sockets, kernel", "A104 A105 A106 A108 A109 A110 A112 A113 A114 A116 A117 A118 A120 A121 A122 A124 A125 A126 A128 A129 A130 A132"},
	{"HTTP", "A133 A134 A136 A137 A138 A140 A141 A142 A144 A145 A146 A148 A149 A150 A152 A153 A154 A156"},
	{"Tunnels and the life of a policy", "A157 A158 A160 A161 A162 A164 A165 A166 A168 A169"},
	{"Resources", "A170 A172 A173 A174 A176 A177 A178"},
	{"Secrets", "B001 B002 B004 B005 B006 B008 B009 B010 B012 B013 B014 B016 B017 B018 B020 B021 B022 B024 B025 B026 B028 B029 B030 B032 B033 B034 B036 B037 B038 B040 B041 B042 B044 B045 B046 B048 B049 B050 B052 B053 B054 B056 B057 B058 B060 B061 B062 B064 B065 B066 B068 B069 B070 B072 B073"},
	{"Model gateway", "D001 D002 D004 D005 D006 D008 D009 D010 D012 D013 D014 D016 D017 D018 D020 D021 D022 D024 D025 D026 D028 D029 D030 D032 D033 D034 D036 D037 D038 D040 D041 D042 D050 D052 D053 D054 D056 D057 D058 D060 D061 D070 D072 D073 D074 D076 D077 D078 D080 D081"},
	{"Git and results", "C041 C042 C044 C045 C046 C048 C049 C050 C052 C053 C054 C056 C057 C058 C060 C061 C062 C064 C065 C066 C068 C069 C070 C072 C073 C074 C076 C077 C078 C080 C081"},
}

// attackRow is one row of a table of cases, and the part that it stands in.
type attackRow struct{ part, id, tried, tests, result string }

// TestAttackTable holds docs/attacks.md, the list of cases and the tests to
// each other.
func TestAttackTable(t *testing.T) {
	t.Parallel()
	attackTable.hold(t)
}

// TestReportTable does so for docs/reports.md.
func TestReportTable(t *testing.T) {
	t.Parallel()
	reportTable.hold(t)
}

func (c caseTable) hold(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := readTestNames("..")
	if err != nil {
		t.Fatal(err)
	}
	rows, problems := c.read(string(page))
	for _, p := range append(problems, c.check(rows, tests)...) {
		t.Error(p)
	}
	// The page names tests elsewhere too.
	for _, name := range namedTests(string(page)) {
		if _, ok := tests[name]; !ok && strings.HasPrefix(name, "Test") {
			t.Errorf("there is no %s", name)
		}
	}
}

// read returns the rows of the page, and what is wrong with their form.
func (c caseTable) read(page string) (rows []attackRow, problems []string) {
	_, rest, ok := strings.Cut(page, "<!-- "+c.mark+":begin -->")
	text, _, ok2 := strings.Cut(rest, "<!-- "+c.mark+":end -->")
	if !ok || !ok2 {
		return nil, []string{fmt.Sprintf("the marks %s:begin and %[1]s:end are missing", c.mark)}
	}
	part := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "## "); ok {
			part = head
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| case |") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			problems = append(problems, fmt.Sprintf("row %q has %d cells, want 4", line, len(cells)))
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, attackRow{part, cells[0], cells[1], cells[2], cells[3]})
	}
	return rows, problems
}

// testNames are the test functions of a tree, each with the cases that the
// string literals of its files, its own name or its comments say.
type testNames map[string]map[string]bool

var (
	caseID    = regexp.MustCompile(`\b[ABCD][0-9]{3}[a-z]?\b`)
	caseRange = regexp.MustCompile(`\b([ABCD])([0-9]{3})–[ABCD]([0-9]{3})\b`)
)

// casesIn are the cases that a text names, one by one or as a range.
func casesIn(text string) []string {
	list := caseID.FindAllString(text, -1)
	for _, m := range caseRange.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(m[3])
		for n := first; n <= last; n++ {
			list = append(list, fmt.Sprintf("%s%03d", m[1], n))
		}
	}
	return list
}

func readTestNames(root string) (testNames, error) {
	names := testNames{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err == nil {
			names.add(file)
		}
		return err
	})
	return names, err
}

// add notes the tests of one file.
func (n testNames) add(file *ast.File) {
	cases := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if e, ok := node.(ast.Expr); ok {
			for _, id := range caseID.FindAllString(stringOf(e), -1) {
				cases[id] = true
			}
		}
		return true
	})
	for _, t := range testsOf(file) {
		if n[t.name] == nil {
			n[t.name] = map[string]bool{}
		}
		for id := range cases {
			n[t.name][id] = true
		}
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || n[f.Name.Name] == nil {
			continue
		}
		text := strings.ReplaceAll(f.Name.Name, "_", " ") + " " + f.Doc.Text()
		for _, c := range file.Comments {
			if f.Pos() < c.Pos() && c.End() < f.End() {
				text += " " + c.Text()
			}
		}
		for _, id := range casesIn(text) {
			n[f.Name.Name][id] = true
		}
	}
}

// check returns every disagreement between rows, cases and tests.
func (c caseTable) check(rows []attackRow, tests testNames) []string {
	var problems []string
	seen := map[string]string{}
	for _, r := range rows {
		if seen[r.id] != "" {
			problems = append(problems, r.id+": two rows")
		}
		seen[r.id] = r.part
		problems = append(problems, c.checkRow(r, tests)...)
	}
	for _, part := range c.cases {
		for id := range strings.FieldsSeq(part.ids) {
			if seen[id] != part.part {
				problems = append(problems, fmt.Sprintf("%s: no row under %q", id, part.part))
			}
		}
	}
	return problems
}

func (c caseTable) checkRow(r attackRow, tests testNames) []string {
	if c.saysCase && caseID.FindString(r.id) != r.id || r.tried == "" || r.result == "" {
		return []string{fmt.Sprintf("%s: a row is a case, what is tried, tests and the result", r.id)}
	}
	named := namedTests(r.tests)
	if len(named) == 0 {
		if r.tests == "none" && strings.Contains(r.result, "because ") {
			return nil
		}
		return []string{r.id + `: names no test; one that has none says "none", and why ("because …")`}
	}
	var problems []string
	for _, name := range named {
		switch cases, ok := tests[name]; {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s: there is no %s", r.id, name))
		case c.saysCase && !cases[r.id]:
			problems = append(problems, fmt.Sprintf("%s: no name in the file of %s says the case", r.id, name))
		}
	}
	return problems
}

// TestAttackTableFindsFaults is the twin of TestAttackTable.
func TestAttackTableFindsFaults(t *testing.T) {
	t.Parallel()
	page := func(rows ...string) string {
		return "<!-- attacks:begin -->\n## DNS\n| case | what is tried | test | result |\n|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n<!-- attacks:end -->"
	}
	tests := testNames{"TestX": {"A001": true}}
	for name, c := range map[string]struct {
		page string
		want string
	}{
		"good":            {page(`| A001 | x | `+"`TestX`"+` | refused |`, `| A002 | x | none | because it cannot be |`), ""},
		"no marks":        {"", "marks"},
		"cells":           {page("| A001 | x |"), "cells"},
		"no such test":    {page("| A001 | x | `TestY` | refused |"), "there is no TestY"},
		"case not said":   {page("| A002 | x | `TestX` | refused |"), "says the case"},
		"no test, no why": {page("| A002 | x | none | refused |"), "names no test"},
		"twice":           {page("| A001 | x | `TestX` | y |", "| A001 | x | `TestX` | y |"), "two rows"},
		"no case":         {page("| E001 | x | `TestX` | y |"), "a row is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, problems := attackTable.read(c.page)
			problems = slices.DeleteFunc(append(problems, attackTable.check(rows, tests)...), func(p string) bool {
				return strings.Contains(p, "no row under") // the fixed list has its own twin: any empty page
			})
			if all := strings.Join(problems, "\n"); (all == "") != (c.want == "") || !strings.Contains(all, c.want) {
				t.Errorf("found %q, want %q", all, c.want)
			}
		})
	}
}
