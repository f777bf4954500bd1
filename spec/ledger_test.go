package spec_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateLedger = flag.Bool("update-ledger", false, "write the Test column of docs/threat-model.md from the tests")

const ledgerFile = "../docs/threat-model.md"

// claimCounts is the fixed list of security claims: for each area the IDs from
// 01 to the number. IDs are never dropped or used again; a new claim is the
// next number.
var claimCounts = []struct {
	area  string
	count int
}{
	{"ISO", 15},
	{"EGR", 15},
	{"SEC", 12},
	{"MGW", 8},
	{"PRV", 6},
	{"RES", 8},
	{"SRV", 10},
	{"TUN", 3},
	{"TRG", 3},
}

func allClaims() []string {
	var ids []string
	for _, a := range claimCounts {
		for n := 1; n <= a.count; n++ {
			ids = append(ids, fmt.Sprintf("%s-%02d", a.area, n))
		}
	}
	return ids
}

// ledgerRow is one row of the table, cells as written.
type ledgerRow struct {
	id, claim, boundary, status, tests, tier string
}

// claimTest is one test function: its name, and the claim that its first
// statement names by t.Attr, or "".
type claimTest struct {
	name, attr string
}

// TestLedger holds docs/threat-model.md and the tests of this folder to each
// other, in both directions.
func TestLedger(t *testing.T) {
	page, err := os.ReadFile(ledgerFile)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := readClaimTests(".")
	if err != nil {
		t.Fatal(err)
	}
	if *updateLedger {
		page = []byte(writeTests(string(page), tests))
		if err := os.WriteFile(ledgerFile, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rows, problems := readLedger(string(page))
	problems = append(problems, checkLedger(rows, tests)...)
	for _, p := range append(problems, checkMissing(rows, string(page))...) {
		t.Error(p)
	}
}

var missingLine = regexp.MustCompile(`(?m)^- ([A-Z]{3}-[0-9]{2}): \S`)

// checkMissing holds the list of what partial claims lack to the rows.
func checkMissing(rows []ledgerRow, page string) []string {
	_, list, _ := strings.Cut(page, "<!-- ledger:end -->")
	said := map[string]int{}
	for _, m := range missingLine.FindAllStringSubmatch(list, -1) {
		said[m[1]]++
	}
	var problems []string
	for _, r := range rows {
		want := 0
		if r.status == "partial" {
			want = 1
		}
		if said[r.id] != want {
			problems = append(problems, fmt.Sprintf("%s: %s, and the page says %d times what is missing", r.id, r.status, said[r.id]))
		}
	}
	return problems
}

// readLedger returns the rows between the two marks of the page, and what is
// wrong with their form.
func readLedger(page string) ([]ledgerRow, []string) {
	_, rest, ok := strings.Cut(page, "<!-- ledger:begin -->")
	table, _, ok2 := strings.Cut(rest, "<!-- ledger:end -->")
	if !ok || !ok2 {
		return nil, []string{"the marks ledger:begin and ledger:end are missing"}
	}
	var rows []ledgerRow
	var problems []string
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		if i < 2 { // the head of the table
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
		if len(cells) != 6 {
			problems = append(problems, fmt.Sprintf("row %q has %d cells, want 6", line, len(cells)))
			continue
		}
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		rows = append(rows, ledgerRow{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]})
	}
	return rows, problems
}

// readClaimTests returns the test functions of the folder's test files, by
// their syntax trees.
func readClaimTests(dir string) ([]claimTest, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var tests []claimTest
	for _, name := range files {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		tests = append(tests, testsOf(file)...)
	}
	return tests, nil
}

func testsOf(file *ast.File) []claimTest {
	var tests []claimTest
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			tests = append(tests, claimTest{f.Name.Name, claimOf(f)})
		}
	}
	return tests
}

// claimOf returns the claim of a first statement t.Attr("claim", "EGR-01").
func claimOf(f *ast.FuncDecl) string {
	if f.Body == nil || len(f.Body.List) == 0 {
		return ""
	}
	stmt, ok := f.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return ""
	}
	call, ok := stmt.X.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return ""
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Attr" || stringOf(call.Args[0]) != "claim" {
		return ""
	}
	return stringOf(call.Args[1])
}

func stringOf(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

var (
	claimName    = regexp.MustCompile(`^Test([A-Z]{3})([0-9]{2})_[A-Z][A-Za-z0-9]*$`)
	looksLikeOne = regexp.MustCompile(`^Test(ISO|EGR|SEC|MGW|PRV|RES|SRV|TUN|TRG)[_0-9]`)
)

// checkLedger returns every disagreement between the rows and the tests.
func checkLedger(rows []ledgerRow, tests []claimTest) []string {
	problems := checkIDs(rows)
	byClaim, wrong := groupByClaim(tests)
	problems = append(problems, wrong...)
	known := map[string]bool{}
	for _, r := range rows {
		known[r.id] = true
		problems = append(problems, checkRow(r, byClaim[r.id])...)
	}
	for _, t := range tests {
		if t.attr != "" && !known[t.attr] {
			problems = append(problems, fmt.Sprintf("%s: claim %q has no row", t.name, t.attr))
		}
	}
	return problems
}

func checkIDs(rows []ledgerRow) []string {
	var problems []string
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.id]++
	}
	for _, id := range allClaims() {
		switch n := seen[id]; {
		case n == 0:
			problems = append(problems, id+": the row is missing")
		case n > 1:
			problems = append(problems, fmt.Sprintf("%s: %d rows, want one", id, n))
		}
		delete(seen, id)
	}
	for id := range seen {
		problems = append(problems, fmt.Sprintf("%q is no known claim: add it to the fixed list, or mend the cell", id))
	}
	return problems
}

// groupByClaim sorts the tests by claim and returns those whose name and
// first statement do not say the same.
func groupByClaim(tests []claimTest) (map[string][]string, []string) {
	byClaim := map[string][]string{}
	var problems []string
	for _, t := range tests {
		m := claimName.FindStringSubmatch(t.name)
		switch {
		case m == nil && (looksLikeOne.MatchString(t.name) || t.attr != ""):
			problems = append(problems, t.name+": a test of a claim is named like TestEGR01_WhatHolds")
		case m == nil:
		case t.attr != m[1]+"-"+m[2]:
			problems = append(problems, fmt.Sprintf(`%s: the first line must be t.Attr("claim", "%s-%s"), found %q`, t.name, m[1], m[2], t.attr))
		default:
			byClaim[t.attr] = append(byClaim[t.attr], t.name)
		}
	}
	return byClaim, problems
}

func checkRow(r ledgerRow, tests []string) []string {
	var problems []string
	report := func(format string, args ...any) {
		problems = append(problems, r.id+": "+fmt.Sprintf(format, args...))
	}
	if r.claim == "" || r.boundary == "" {
		report("the claim or its boundary is empty")
	}
	named := namedTests(r.tests)
	switch r.status {
	case "planned":
		if len(named) > 0 {
			report("planned, yet it names tests: %s", r.tests)
		}
	case "proven", "partial":
		if len(named) == 0 {
			report("%s without a test", r.status)
		}
		if !slices.Contains([]string{"user", "root", "both"}, r.tier) {
			report("tier %q, want user, root or both", r.tier)
		}
	default:
		report("status %q, want proven, partial or planned", r.status)
	}
	for _, n := range named {
		if !slices.Contains(tests, n) {
			report("names %s, which is no test of this claim", n)
		}
	}
	for _, n := range tests {
		if !slices.Contains(named, n) {
			report("the row does not name its test %s", n)
		}
	}
	return problems
}

var quotedName = regexp.MustCompile("`([^`]+)`")

func namedTests(cell string) []string {
	var names []string
	for _, m := range quotedName.FindAllStringSubmatch(cell, -1) {
		names = append(names, m[1])
	}
	return names
}

// writeTests returns the page with the Test cell of each claim that has tests
// set to their names.
func writeTests(page string, tests []claimTest) string {
	byClaim, _ := groupByClaim(tests)
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		cells := strings.Split(line, "|")
		if len(cells) != 8 {
			continue
		}
		names := byClaim[strings.TrimSpace(cells[1])]
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		cells[5] = " `" + strings.Join(names, "`, `") + "` "
		lines[i] = strings.Join(cells, "|")
	}
	return strings.Join(lines, "\n")
}

// TestLedgerFindsFaults is the twin of TestLedger: a ledger with a fault in it
// fails, each fault with its own message, and the whole one does not.
func TestLedgerFindsFaults(t *testing.T) {
	t.Parallel()
	good := []claimTest{{"TestEGR01_NoneHasLoopbackAlone", "EGR-01"}, {"TestHelper", ""}}
	cases := []struct {
		name  string
		rows  func([]ledgerRow) []ledgerRow
		tests []claimTest
		want  string
	}{
		{"whole", nil, good, ""},
		{"missing row", func(r []ledgerRow) []ledgerRow { return r[1:] }, good, "ISO-01: the row is missing"},
		{"row twice", func(r []ledgerRow) []ledgerRow { return append(r, r[0]) }, good, "ISO-01: 2 rows, want one"},
		{"unknown row", func(r []ledgerRow) []ledgerRow {
			return append(r, ledgerRow{"ISO-99", "x", "y", "planned", "—", "—"})
		}, good, `"ISO-99" is no known claim`},
		{"decorated id", func(r []ledgerRow) []ledgerRow { r[0].id = "**ISO-01**"; return r }, good, "ISO-01: the row is missing"},
		{"unknown status", edit("ISO-02", func(r *ledgerRow) { r.status = "done" }), good, `ISO-02: status "done"`},
		{"empty claim", edit("ISO-02", func(r *ledgerRow) { r.claim = "" }), good, "ISO-02: the claim or its boundary is empty"},
		{"proven without a test", edit("ISO-02", func(r *ledgerRow) { r.status, r.tier = "proven", "both" }), good, "ISO-02: proven without a test"},
		{"partial without a test", edit("ISO-02", func(r *ledgerRow) { r.status, r.tier = "partial", "both" }), good, "ISO-02: partial without a test"},
		{"planned with a test", edit("EGR-01", func(r *ledgerRow) { r.status = "planned" }), good, "EGR-01: planned, yet it names tests"},
		{"unknown tier", edit("EGR-01", func(r *ledgerRow) { r.tier = "sometimes" }), good, `EGR-01: tier "sometimes"`},
		{"test does not exist", nil, good[1:], "EGR-01: names TestEGR01_NoneHasLoopbackAlone, which is no test of this claim"},
		{"test not in the row", nil, append(good[:2:2], claimTest{"TestEGR01_More", "EGR-01"}), "EGR-01: the row does not name its test TestEGR01_More"},
		{"test without a row", nil, append(good[:2:2], claimTest{"TestEGR77_More", "EGR-77"}), `TestEGR77_More: claim "EGR-77" has no row`},
		{"test without the attribute", nil, append(good[:2:2], claimTest{"TestISO01_Kernel", ""}), `TestISO01_Kernel: the first line must be t.Attr("claim", "ISO-01")`},
		{"test of another claim", nil, append(good[:2:2], claimTest{"TestISO01_Kernel", "ISO-02"}), `TestISO01_Kernel: the first line must be`},
		{"short name", nil, append(good[:2:2], claimTest{"TestISO1_Kernel", "ISO-01"}), "TestISO1_Kernel: a test of a claim is named like"},
		{"attribute without the name", nil, append(good[:2:2], claimTest{"TestKernel", "ISO-01"}), "TestKernel: a test of a claim is named like"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rows := goodLedger()
			if tc.rows != nil {
				rows = tc.rows(rows)
			}
			problems := checkLedger(rows, tc.tests)
			if tc.want == "" {
				if diff := cmp.Diff([]string(nil), problems); diff != "" {
					t.Fatal(diff)
				}
				return
			}
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, tc.want) }) {
				t.Fatalf("no problem begins with %q in %q", tc.want, problems)
			}
		})
	}
}

// goodLedger is a ledger in which EGR-01 is proven and all else planned.
func goodLedger() []ledgerRow {
	var rows []ledgerRow
	for _, id := range allClaims() {
		rows = append(rows, ledgerRow{id, "holds", "somewhere", "planned", "—", "—"})
	}
	return edit("EGR-01", func(r *ledgerRow) {
		r.status, r.tests, r.tier = "proven", "`TestEGR01_NoneHasLoopbackAlone`", "both"
	})(rows)
}

func edit(id string, change func(*ledgerRow)) func([]ledgerRow) []ledgerRow {
	return func(rows []ledgerRow) []ledgerRow {
		for i := range rows {
			if rows[i].id == id {
				change(&rows[i])
			}
		}
		return rows
	}
}

// TestLedgerReadsSource holds the reading of pages and of syntax trees.
func TestLedgerReadsSource(t *testing.T) {
	t.Parallel()
	src := `package p
func TestEGR01_A(t *testing.T) { t.Attr("claim", "EGR-01"); t.Log() }
func TestEGR02_B(t *testing.T) { t.Log(); t.Attr("claim", "EGR-02") }
func (x T) TestEGR03_C() { t.Attr("claim", "EGR-03") }
func TestEmpty(t *testing.T) {}
func help() {}
`
	file, err := parser.ParseFile(token.NewFileSet(), "p_test.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := []claimTest{{"TestEGR01_A", "EGR-01"}, {"TestEGR02_B", ""}, {"TestEmpty", ""}}
	if diff := cmp.Diff(want, testsOf(file), cmp.AllowUnexported(claimTest{})); diff != "" {
		t.Error(diff)
	}

	page := "x\n<!-- ledger:begin -->\n| h |\n|---|\n| ISO-01 | c | b | planned | — | — |\n| ISO-02 | c |\n<!-- ledger:end -->\n"
	rows, problems := readLedger(page)
	if diff := cmp.Diff([]ledgerRow{{"ISO-01", "c", "b", "planned", "—", "—"}}, rows, cmp.AllowUnexported(ledgerRow{})); diff != "" {
		t.Error(diff)
	}
	if len(problems) != 1 {
		t.Errorf("problems %q, want one about the short row", problems)
	}
	partial := []ledgerRow{{id: "ISO-01", status: "partial"}, {id: "ISO-02", status: "proven"}}
	for list, want := range map[string]int{"- ISO-01: x\n": 0, "": 1, "- ISO-01: x\n- ISO-01: y\n": 1, "- ISO-02: x\n": 2} {
		if got := checkMissing(partial, "<!-- ledger:end -->\n"+list); len(got) != want {
			t.Errorf("%q: problems %q, want %d", list, got, want)
		}
	}
	if _, problems := readLedger("no table"); len(problems) != 1 {
		t.Errorf("a page without the table: problems %q, want one", problems)
	}
}
