package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonMerge is for configurations that are JSON, with comments or without: the
// server is a member of an object at the top.
func jsonMerge(object string, entry func(Server) member) func([]byte, Server) ([]byte, error) {
	return func(old []byte, s Server) ([]byte, error) {
		value, err := json.Marshal(entry(s))
		if err != nil {
			return nil, fmt.Errorf("encode entry: %w", err)
		}
		if len(bytes.TrimSpace(old)) == 0 {
			return indented(fmt.Appendf(nil, `{%q:{%q:%s}}`, object, Name, value), "")
		}
		return jsonAdd(old, object, value)
	}
}

func indented(data []byte, prefix string) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, data, prefix, "  "); err != nil {
		return nil, fmt.Errorf("indent: %w", err)
	}
	if prefix == "" {
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

func jsonAdd(old []byte, object string, value []byte) ([]byte, error) {
	before, err := values(old)
	if err != nil {
		return nil, refuse("it is no JSON object (" + err.Error() + ")")
	}
	want, err := values(value)
	if err != nil {
		return nil, fmt.Errorf("decode entry: %w", err)
	}
	servers, isObject := before[object].(map[string]any)
	if _, there := before[object]; there && !isObject {
		return nil, refuse(object + " in it is no object")
	}
	if reflect.DeepEqual(servers[Name], any(want)) {
		return old, nil
	}
	out, err := patched(old, object, servers != nil, value)
	if err != nil {
		return nil, refuse(err.Error())
	}
	if servers == nil {
		servers = map[string]any{}
	}
	servers[Name] = want
	before[object] = servers
	after, err := values(out)
	if err != nil || !reflect.DeepEqual(before, after) {
		return nil, refuse("something else in it would have changed; does a name stand in it twice?")
	}
	return out, nil
}

// values reads JSON with comments.
func values(data []byte) (map[string]any, error) {
	plain, err := hujson.Standardize(bytes.Clone(data))
	if err != nil {
		return nil, err
	}
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, errors.New("it is null")
	}
	return v, nil
}

// patched adds the entry, or replaces the one that is there.
func patched(old []byte, object string, there bool, value []byte) ([]byte, error) {
	tree, err := hujson.Parse(old)
	if err != nil {
		return nil, err
	}
	path, add := "/"+object+"/"+Name, value
	if !there {
		path, add = "/"+object, fmt.Appendf(nil, `{%q:%s}`, Name, value)
	}
	if err := tree.Patch(fmt.Appendf(nil, `[{"op":"add","path":%q,"value":%s}]`, path, add)); err != nil {
		return nil, err
	}
	place(&tree, object, there)
	return tree.Pack(), nil
}

// place gives what was added lines of its own, as its neighbours have.
func place(tree *hujson.Value, object string, there bool) {
	top, ok := tree.Value.(*hujson.Object)
	if !ok {
		return
	}
	added, parent, depth := tree.Find("/"+object+"/"+Name), tree.Find("/"+object), 2
	if !there {
		added, parent, depth = parent, tree, 1
	}
	if added == nil || parent == nil {
		return
	}
	unit := unitOf(top)
	data, err := json.Marshal(json.RawMessage(added.Pack()))
	if err != nil {
		return
	}
	var b bytes.Buffer
	if json.Indent(&b, data, strings.Repeat(unit, depth), unit) != nil {
		return
	}
	shaped, err := hujson.Parse(b.Bytes())
	if err != nil {
		return
	}
	added.Value = shaped.Value
	added.BeforeExtra = hujson.Extra(" ")
	o, ok := parent.Value.(*hujson.Object)
	if !ok {
		return
	}
	for i := range o.Members {
		name := &o.Members[i].Name
		if lit, ok := name.Value.(hujson.Literal); ok && (lit.String() == Name && there || lit.String() == object && !there) {
			comments := bytes.TrimRight(name.BeforeExtra, " \t\r\n")
			name.BeforeExtra = append(comments, "\n"+strings.Repeat(unit, depth)...)
		}
	}
	if !bytes.ContainsRune(o.AfterExtra, '\n') {
		o.AfterExtra = append(o.AfterExtra, "\n"+strings.Repeat(unit, depth-1)...)
	}
}

// unitOf is what a file indents by.
func unitOf(top *hujson.Object) string {
	if len(top.Members) == 0 {
		return "  "
	}
	before := top.Members[0].Name.BeforeExtra
	unit := string(before[bytes.LastIndexByte(before, '\n')+1:])
	if unit == "" || len(unit) > 8 || strings.Trim(unit, " \t") != "" {
		return "  "
	}
	return unit
}
