package posture

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Deviation is one field in which a process is not what it should be.
type Deviation struct {
	Role  Role   `json:"role"`
	PID   int    `json:"pid"`
	Field string `json:"field"`
	Got   string `json:"got"`
	Want  string `json:"want"`
}

// String says it in one line.
func (d Deviation) String() string {
	return fmt.Sprintf("%s (pid %d): %s is %s, want %s", d.Role, d.PID, d.Field, d.Got, d.Want)
}

// Diff compares every field of got with want, but for those tagged "info" and
// those that the reader could not see. A "subset" field may hold nothing that
// matches none of the wanted entries, in which "*" stands for anything.
func Diff(got, want Posture) []Deviation {
	var list []Deviation
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		field := g.Type().Field(i)
		how := field.Tag.Get("posture")
		if how == "info" || slices.Contains(got.Hidden, field.Name) {
			continue
		}
		d := Deviation{Role: want.Role, PID: got.PID, Field: field.Name}
		a, b := g.Field(i).Interface(), w.Field(i).Interface()
		switch {
		case how == "subset":
			extra := beyond(a, b)
			if len(extra) == 0 {
				continue
			}
			d.Got, d.Want = strings.Join(extra, "; "), "nothing of that"
		case a == any(Unseen), reflect.DeepEqual(a, b):
			continue
		default:
			d.Got, d.Want = show(a), show(b)
		}
		list = append(list, d)
	}
	return list
}

// beyond returns what matches none of the allowed patterns.
func beyond(got, allowed any) []string {
	g, _ := got.([]string)
	a, _ := allowed.([]string)
	var extra []string
	for _, s := range g {
		if !slices.ContainsFunc(a, func(pattern string) bool { return matches(pattern, s) }) {
			extra = append(extra, s)
		}
	}
	return extra
}

// matches compares with a pattern in which each "*" stands for any text.
func matches(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) || len(s) < len(first)+len(last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return true
}

func show(v any) string {
	if c, ok := v.(Caps); ok {
		return fmt.Sprintf("inh %x prm %x eff %x bnd %x amb %x", c.Inheritable, c.Permitted, c.Effective, c.Bounding, c.Ambient)
	}
	return fmt.Sprint(v)
}
