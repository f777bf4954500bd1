package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The words of a verdict are all in the table of docs/policy.md.
func TestReasons_AreInTheManual(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "## Words of a verdict\n")
	table, _, ended := strings.Cut(table, "\n## ")
	if !found || !ended {
		t.Fatal("there is no such part")
	}
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		word, err := strconv.Unquote(lit.Value)
		if count++; err != nil || !strings.Contains(table, "`"+word+"`") {
			t.Errorf("docs/policy.md, Words of a verdict: %q is missing", word)
		}
		return true
	})
	if count < 30 {
		t.Errorf("only %d words were found", count)
	}
}
