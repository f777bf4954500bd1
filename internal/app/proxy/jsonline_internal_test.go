package proxy

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/bailey-dev/bailey"
)

// wantLine is what encoding/json makes of an event.
func wantLine(t *testing.T, ev bailey.Event) string {
	t.Helper()
	b, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func checkLine(t *testing.T, ev bailey.Event) {
	t.Helper()
	got, err := appendLine([]byte("before "), &ev)
	if want := "before " + wantLine(t, ev); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// Each field alone, and all of them, are written as encoding/json does: one
// that is added to the type and forgotten here fails.
func TestAppendLine_EachField(t *testing.T) {
	t.Parallel()
	var all bailey.Event
	for i := range reflect.TypeFor[bailey.Event]().NumField() {
		var one bailey.Event
		for _, ev := range []*bailey.Event{&one, &all} {
			fill(t, reflect.ValueOf(ev).Elem().Field(i), int64(i))
		}
		checkLine(t, one)
		checkLine(t, all)
	}
	checkLine(t, bailey.Event{})
}

// fill gives a field a value that is not zero.
func fill(t *testing.T, v reflect.Value, n int64) {
	t.Helper()
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 11, 30, 1, 2, 3, 40500, time.FixedZone("", 3600))))
	case []string:
		v.Set(reflect.ValueOf([]string{"a", "b"}))
	default:
		switch {
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case v.Kind() == reflect.String:
			v.SetString("word")
		case v.CanInt():
			v.SetInt(-1 - n)
		case v.CanUint():
			v.SetUint(1 + uint64(n))
		default:
			t.Fatalf("a field of type %s: say how it is written", v.Type())
		}
	}
}

func FuzzAppendLine(f *testing.F) {
	for _, s := range []string{"", "GET", "a\"b\\c", "<a&b>", "\x00\x1f\x7f", "é\u2028\xff", "/x?y=z%20", "\U0001F600"} {
		f.Add(s, s, int64(1), uint64(1)<<63, int64(12345))
	}
	f.Add("a", "b", int64(-1), uint64(0), int64(1)<<60)
	f.Fuzz(func(t *testing.T, a, b string, n int64, u uint64, at int64) {
		var ev bailey.Event
		ev.Time, ev.Type, ev.Sandbox = time.Unix(at%(1<<33), n), bailey.EventType(a), bailey.SandboxID(b)
		ev.Host, ev.Path, ev.Message, ev.Rule = a, b, a+b, b
		ev.Port, ev.BytesIn, ev.Connection, ev.Status = uint16(u), n, u, int(n)
		if _, err := json.Marshal(ev); err != nil {
			return // a year that RFC 3339 has not
		}
		checkLine(t, ev)
	})
}
