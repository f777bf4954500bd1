package modeltypes

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/gateway/document"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
)

// Constants are the string constants of an SDK, by the name of their type.
type Constants map[string][]string

// ReadConstants reads those of the Go files of a folder.
func ReadConstants(dir string) (Constants, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	all := Constants{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		all.read(file)
	}
	return all, nil
}

func (c Constants) read(file *ast.File) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			c.add(spec)
		}
	}
}

func (c Constants) add(spec ast.Spec) {
	v, ok := spec.(*ast.ValueSpec)
	if !ok || len(v.Values) != 1 {
		return
	}
	typ, ok := v.Type.(*ast.Ident)
	if !ok {
		return
	}
	literal, ok := v.Values[0].(*ast.BasicLit)
	if !ok {
		return
	}
	if s, err := strconv.Unquote(literal.Value); err == nil {
		c[typ.Name] = append(c[typ.Name], s)
	}
}

// Unclassified goes through a type of an SDK, as deep as it is, beside a place
// of a list, and names whatever the SDK can send and the list says nothing
// about. What the list drops or refuses is not looked into.
func Unclassified(t reflect.Type, at shape.Node, constants Constants) []string {
	w := walk{constants: constants, seen: map[place]bool{}}
	w.value("", t, at)
	return w.found
}

type place struct {
	typ  reflect.Type
	node shape.Node
}

type walk struct {
	constants Constants
	seen      map[place]bool
	found     []string
}

func (w *walk) report(path, format string, arguments ...any) {
	w.found = append(w.found, strings.TrimPrefix(path, ".")+": "+fmt.Sprintf(format, arguments...))
}

func (w *walk) value(path string, t reflect.Type, n shape.Node) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	key := place{t, n}
	if n.Free() || w.seen[key] {
		return
	}
	w.seen[key] = true
	switch t.Kind() {
	case reflect.String:
		w.text(path, t, n)
	case reflect.Bool:
		w.kind(path, n, document.True)
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64:
		w.kind(path, n, document.Number)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // base64
			w.kind(path, n, document.String)
		} else if w.kind(path, n, document.Array) {
			w.value(path+"[]", t.Elem(), n.Item())
		}
	case reflect.Map:
		w.member(path, "*", t.Elem(), n)
	case reflect.Struct:
		w.structure(path, t, n)
	default:
		w.report(path, "the SDK takes any JSON, and the list does not")
	}
}

func (w *walk) kind(path string, n shape.Node, kind document.Kind) bool {
	if n.Takes(kind) {
		return true
	}
	w.report(path, "the SDK sends %s, and the list takes none", kind)
	return false
}

func (w *walk) text(path string, t reflect.Type, n shape.Node) {
	if !w.kind(path, n, document.String) || n.Any() {
		return
	}
	for _, v := range w.values(t) {
		if n.Value(v) == shape.Unknown {
			w.report(path, "the value %q", v)
		}
	}
}

// values are those that a string type of an SDK has: of a type with one value
// its method says which, of the others the constants do.
func (w *walk) values(t reflect.Type) []string {
	if method, ok := t.MethodByName("Default"); ok {
		return []string{method.Func.Call([]reflect.Value{reflect.Zero(t)})[0].String()}
	}
	return w.constants[t.Name()]
}

func (w *walk) structure(path string, t reflect.Type, n shape.Node) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		w.kind(path, n, document.String)
	case strings.HasPrefix(t.Name(), "Opt["):
		value, _ := t.FieldByName("Value")
		w.value(path, value.Type, n)
	case isUnion(t):
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && !f.Anonymous {
				w.value(path, f.Type, n)
			}
		}
	case n.By() != "":
		w.variant(path, t, n)
	default:
		w.object(path, t, n)
	}
}

// isUnion reports whether a struct is one of several, as the SDKs that are
// generated mark it.
func isUnion(t reflect.Type) bool {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && f.Type.Name() == "APIUnion" {
			return true
		}
	}
	return false
}

func (w *walk) variant(path string, t reflect.Type, n shape.Node) {
	for i := range t.NumField() {
		f := t.Field(i)
		if nameOf(f) != n.By() {
			continue
		}
		if f.Type.Kind() != reflect.String {
			break
		}
		for _, v := range w.values(f.Type) {
			switch verdict, node := n.Variant(v); verdict {
			case shape.Unknown:
				w.report(path, "the variant %q", v)
			case shape.Keep:
				w.value(path+"<"+v+">", t, node)
			}
		}
		return
	}
	w.report(path, "%s has no %s, by which the list tells variants", t.Name(), n.By())
}

func (w *walk) object(path string, t reflect.Type, n shape.Node) {
	for i := range t.NumField() {
		if name := nameOf(t.Field(i)); name != "" {
			w.member(path, name, t.Field(i).Type, n)
		}
	}
}

func (w *walk) member(path, name string, t reflect.Type, n shape.Node) {
	switch verdict, node := n.Field(name); {
	case verdict == shape.Unknown:
		w.report(path+"."+name, "the member")
	case verdict == shape.Keep && node != shape.Node{}:
		w.value(path+"."+name, t, node)
	}
}

// nameOf is the name of a field in JSON, or "" if it is not sent in the body.
func nameOf(f reflect.StructField) string {
	if !f.IsExported() || f.Anonymous {
		return ""
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}
