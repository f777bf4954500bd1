package egress_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A074: the package has one way to make a connection, whose dialer judges each
// address last of all (judged.lastLook). A173: it unpacks nothing.
func TestSources_OneDialerAndNothingUnpacked(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	guarded := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		guarded += check(t, name, file)
	}
	if guarded == 0 {
		t.Error("no guarded dialer was found: this test looks for the wrong thing")
	}
}

// check reports what a source file must not do, and counts guarded dialers.
func check(t *testing.T, name string, file *ast.File) (guarded int) {
	t.Helper()
	for _, i := range file.Imports {
		if path, _ := strconv.Unquote(i.Path.Value); strings.Contains(path, "compress") || strings.Contains(path, "brotli") {
			t.Errorf("A173 %s imports %s", name, path)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && forbidden(x.Name, n.Sel.Name) {
				t.Errorf("A074 %s uses %s.%s, which dials past the guard", name, x.Name, n.Sel.Name)
			}
		case *ast.CompositeLit:
			if s, ok := n.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Dialer" {
				if !has(n, "Control") && !has(n, "ControlContext") {
					t.Errorf("A074 %s makes a dialer that judges nothing", name)
				}
				guarded++
			}
			if s, ok := n.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Transport" && !has(n, "DialContext") && !has(n, "DialTLSContext") {
				t.Errorf("A074 %s makes a transport with a dialer of its own", name)
			}
		}
		return true
	})
	return guarded
}

func forbidden(of, name string) bool {
	switch of {
	case "net", "tls":
		return strings.HasPrefix(name, "Dial") && name != "Dialer"
	case "http":
		switch name {
		case "Get", "Head", "Post", "PostForm", "DefaultClient", "DefaultTransport":
			return true
		}
	}
	return false
}

func has(lit *ast.CompositeLit, key string) bool {
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok && id.Name == key {
				return true
			}
		}
	}
	return false
}
