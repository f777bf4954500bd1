package seal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// revealers are all places where the bytes of a secret or a key are taken out:
// the file, the function, and how often. Whoever adds one says in a review what
// becomes of the bytes.
var revealers = []string{
	"internal/app/keybearer/keybearer.go:carry: 1",    // a provider's key, for the pipe to the gateway
	"internal/app/run/secrets.go:CheckLendable: 1",    // a value, to make a placeholder of its shape and try it
	"internal/app/run/secrets.go:forProxy: 1",         // values and rules, for the pipe to the proxy
	"internal/app/run/secrets.go:lendFrom: 1",         // a value, to make a placeholder of its shape
	"internal/app/run/upstream.go:loginOf: 1",         // a login at the network's own proxy, for the pipe to ours
	"internal/gate/secret.go:Reveal: 1",               // values, for the pipe to the proxy
	"internal/gateway/upstream.go:Upstream.SetKey: 1", // a provider's key, to make a stand-in of its shape
	"internal/gateway/upstream.go:Upstream.sign: 1",   // and for the one field that it is sent in
	"internal/inject/inject.go:reveal: 1",             // values, to be looked for and to be put on requests
	"internal/models/probe.go:reveal: 1",              // a provider's key, for the one field that a test sends it in
	"internal/vault/age.go:Recipients.parse: 1",       // a passphrase, for age
	"internal/vault/age.go:openByPassphrase: 1",       // a passphrase, for age
	"internal/vault/export.go:Vault.Export: 1",        // values, into a file that age encrypts
	"internal/vault/keyfile.go:plainKeyFile: 1",       // the key, into its own file
	"internal/vault/rekey.go:opener.makeKey: 1",       // the key, into a file that age encrypts
	"internal/vault/value.go:Checked: 1",              // a value that was typed, to look at its form
}

// TestReveal_CallersAreListed reads the whole tree: no other package, type or
// reflection gets at the bytes, since Reveal is their only way out.
func TestReveal_CallersAreListed(t *testing.T) {
	t.Parallel()
	found, err := revealersIn("../..")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(revealers, found); diff != "" {
		t.Errorf("who reveals secrets is not as listed (-listed +found):\n%s", diff)
	}
}

// TestReveal_ACallerIsFound is the twin: however it is written.
func TestReveal_ACallerIsFound(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a call":               "_ = s.Reveal()",
		"a method value":       "f := s.Reveal; _ = f()",
		"a method expression":  "_ = seal.Secret.Reveal(s)",
		"through an interface": "_ = any(s).(interface{ Reveal() []byte }).Reveal()",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package p\nfunc (t *T) f() { "+body+" }\n", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := revealersOf("x.go", file); !slices.Equal(got, []string{"x.go:T.f"}) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// revealersIn lists the functions of a tree, its tests left out, that name
// Reveal.
func revealersIn(root string) ([]string, error) {
	counts := map[string]int{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (e.Name() == "testdata" || path != root && strings.HasPrefix(e.Name(), ".") && e.Name() != "..") {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		for _, name := range revealersOf(filepath.ToSlash(rel), file) {
			counts[name]++
		}
		return err
	})
	var out []string
	for name, n := range counts {
		out = append(out, name+": "+string(rune('0'+n)))
	}
	slices.Sort(out)
	return out, err
}

func revealersOf(path string, file *ast.File) []string {
	var out []string
	for _, d := range file.Decls {
		where := "outside of a function"
		if f, ok := d.(*ast.FuncDecl); ok {
			where = nameOf(f)
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Reveal" {
				out = append(out, path+":"+where)
			}
			return true
		})
	}
	return out
}

// nameOf is a function's name, behind that of its receiver's type.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
