package transcript_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/transcript"
)

var update = flag.Bool("update", false, "write the expected events of the recordings")

// read reads a whole stream, in pieces of so many bytes.
func read(tb testing.TB, agent string, stream []byte, piece int) ([]transcript.Event, transcript.Summary) {
	tb.Helper()
	var events []transcript.Event
	r, err := transcript.New(agent, func(e transcript.Event) { events = append(events, e) })
	if err != nil {
		tb.Fatal(err)
	}
	for len(stream) > 0 {
		n := min(piece, len(stream))
		if w, err := r.Write(stream[:n]); err != nil || w != n {
			tb.Fatalf("write: %d %v", w, err)
		}
		stream = stream[n:]
	}
	if err := r.Close(); err != nil {
		tb.Fatal(err)
	}
	return events, r.Summary()
}

// shown is the form of the expected events.
func shown(events []transcript.Event, s transcript.Summary) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%d %s", e.Turn, e.Kind)
		if e.Tool != "" {
			fmt.Fprintf(&b, " %s", e.Tool)
		}
		if e.Line != "" {
			fmt.Fprintf(&b, ": %s", e.Line)
		}
		for _, i := range e.Plan {
			fmt.Fprintf(&b, " [%s: %s]", i.Step, i.Text)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "= ended %v, reason %q, error %q, turns %d, calls %d, lines %d, unknown %d\n%s\n",
		s.Ended, s.Reason, s.Error, s.Turns, s.Calls, s.Lines, s.Unknown, s.Report)
	return b.String()
}

// TestRecordings: what the real agents printed (spec/transcript_test.go
// records it) is understood, however its bytes are cut.
func TestRecordings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) < 11 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent, _, _ := strings.Cut(name, "-")
			stream, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".jsonl") + ".events"
			for _, piece := range []int{1 << 20, 1, 17} {
				events, sum := read(t, agent, stream, piece)
				got := shown(events, sum)
				if *update && piece > 17 {
					if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("in pieces of %d (-want +got):\n%s", piece, diff)
				}
				if sum.Unknown != 0 {
					t.Errorf("%d strange lines", sum.Unknown)
				}
			}
		})
	}
}

// TestLines_OfAllAgents: what no recording holds.
func TestLines_OfAllAgents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, agent, stream, want string }{
		{
			"claude's plan, whole", "claude",
			`{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"x","name":"TodoWrite","input":{"todos":[{"content":"one","status":"completed","activeForm":"o"},{"content":"two","status":"in_progress"}]}}]}}`,
			"1 turn\n1 plan [done: one] [active: two]\n= ended false, reason \"\", error \"\", turns 1, calls 0, lines 1, unknown 0\n\n",
		},
		{
			"claude's plan, item by item", "claude",
			`{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"x","name":"TaskCreate","input":{"subject":"one"}},{"type":"tool_use","id":"y","name":"TaskUpdate","input":{"taskId":"1","status":"completed"}},{"type":"tool_use","id":"z","name":"TaskUpdate","input":{"taskId":"9","status":"completed"}}]}}`,
			"1 turn\n1 plan [pending: one]\n1 plan [done: one]\n1 tool TaskUpdate\n= ended false, reason \"\", error \"\", turns 1, calls 1, lines 1, unknown 0\n\n",
		},
		{
			"an agent of claude's has turns of its own", "claude",
			`{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"x","name":"Task","input":{"description":"look around","prompt":"p"}}]}}
{"type":"assistant","parent_tool_use_id":"x","message":{"id":"b","content":[{"type":"text","text":"hidden"},{"type":"tool_use","id":"y","name":"Bash","input":{"command":"ls"}}]}}
{"type":"user","parent_tool_use_id":"x","message":{"content":[{"type":"tool_result","tool_use_id":"y"}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"x"}]}}
{"type":"assistant","message":{"id":"c","content":[{"type":"text","text":"done"}]}}`,
			"1 turn\n1 tool Task: look around\n1 tool Bash: ls\n2 turn\n2 text: done\n= ended false, reason \"\", error \"\", turns 2, calls 2, lines 5, unknown 0\ndone\n",
		},
		{
			"claude's own limits", "claude",
			`{"type":"result","subtype":"error_max_budget_usd","is_error":true,"num_turns":4,"errors":["Reached maximum budget ($1)"]}`,
			"4 error: Reached maximum budget ($1)\n4 end: error_max_budget_usd\n= ended true, reason \"error_max_budget_usd\", error \"Reached maximum budget ($1)\", turns 4, calls 0, lines 1, unknown 0\n\n",
		},
		{
			"codex's plan", "codex",
			`{"type":"item.started","item":{"id":"i","type":"todo_list","items":[{"text":"one","completed":true},{"text":"two","completed":false}]}}`,
			"1 turn\n1 plan [done: one] [pending: two]\n= ended false, reason \"\", error \"\", turns 1, calls 0, lines 1, unknown 0\n\n",
		},
		{
			"codex's calls at the same time are one turn", "codex",
			`{"type":"item.started","item":{"id":"a","type":"command_execution","command":"bash -lc ls"}}
{"type":"item.started","item":{"id":"b","type":"mcp_tool_call","server":"s","tool":"t","arguments":{"query":"q"}}}
{"type":"item.completed","item":{"id":"a","type":"command_execution","command":"bash -lc ls"}}
{"type":"item.completed","item":{"id":"b","type":"mcp_tool_call","server":"s","tool":"t"}}
{"type":"item.completed","item":{"id":"c","type":"web_search","query":"words"}}`,
			"1 turn\n1 tool shell: ls\n1 tool s.t: q\n2 turn\n2 tool web_search: words\n= ended false, reason \"\", error \"\", turns 2, calls 3, lines 5, unknown 0\n\n",
		},
		{
			"gemini's plan, and the end of its turns", "gemini",
			`{"type":"tool_use","tool_name":"write_todos","tool_id":"x","parameters":{"todos":[{"description":"one","status":"cancelled"}]}}
{"type":"error","severity":"warning","message":"odd"}
{"type":"result","status":"error","error":{"type":"FatalTurnLimitedError","message":"Reached max session turns"}}`,
			"1 turn\n1 plan [dropped: one]\n1 error: odd\n1 error: Reached max session turns\n1 end: error_max_turns\n= ended true, reason \"error_max_turns\", error \"Reached max session turns\", turns 1, calls 0, lines 3, unknown 0\n\n",
		},
		{
			"pi was told to stop", "pi",
			`{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"aborted"}}
{"type":"agent_settled","aborted":true}`,
			"0 end: aborted\n= ended true, reason \"aborted\", error \"\", turns 0, calls 0, lines 2, unknown 0\n\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			events, sum := read(t, tc.agent, []byte(tc.stream), 1<<20)
			if diff := cmp.Diff(tc.want, shown(events, sum)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHostileBytes: nothing that is not a line of the agent's becomes an
// event, and the lines after it are read.
func TestHostileBytes(t *testing.T) {
	t.Parallel()
	const good = `{"type":"assistant","message":{"id":"g","content":[{"type":"text","text":"still here"}]}}`
	deep := func(open, end string) string { return strings.Repeat(open, 200_000) + strings.Repeat(end, 200_000) }
	for name, tc := range map[string]struct {
		bad              string
		unknown, tooLong int
	}{
		"text":            {"Warning: something\n", 1, 0},
		"empty lines":     {"\n\r\n   \n", 0, 0},
		"a torn object":   {`{"type":"assistant","message":{"id":` + "\n", 1, 0},
		"NUL":             {"\x00\x00{\"type\":\"result\"}\n", 1, 0},
		"not UTF-8":       {"\xff\xfe\n", 1, 0},
		"an array":        {"[1,2]\n", 1, 0},
		"deep lists":      {deep("[", "]") + "\n", 0, 1},
		"deep objects":    {deep(`{"a":`, "}") + "\n", 0, 1},
		"many objects":    {`{"type":"assistant","message":{"id":"m","content":[` + strings.Repeat("{},", 1<<20) + "{}]}}\n", 0, 1},
		"a type of none":  {`{"type":"launch_missiles"}` + "\n", 1, 0},
		"no type":         {`{}` + "\n", 1, 0},
		"wrong types":     {`{"type":7,"message":"x","result":[]}` + "\n", 1, 0},
		"an endless line": {strings.Repeat("x", transcript.MaxLine+1) + "\n", 0, 1},
		"one of objects":  {strings.Repeat(`{"type":"result"}`, transcript.MaxLine/16) + "\n", 0, 1},
		"type twice":      {`{"type":"result","type":"system"}` + "\n", 0, 0},
		"content is text": {`{"type":"user","message":{"content":"words"}}` + "\n", 0, 0},
		"null everywhere": {`{"type":"assistant","message":null}` + "\n", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, sum := read(t, "claude", []byte(tc.bad+good), 1<<16)
			if sum.Unknown != tc.unknown || sum.TooLong != tc.tooLong || sum.Ended {
				t.Errorf("it came to %+v", sum)
			}
			if sum.Report != "still here" || events[len(events)-1].Line != "still here" {
				t.Errorf("what follows is lost: %+v", sum)
			}
		})
	}
}

// TestWords: what comes out is one printable line.
func TestWords(t *testing.T) {
	t.Parallel()
	const esc = `\u001b[31m\u202eevil\u200b\n\r\tred\u0000 \u009b`
	stream := `{"type":"assistant","message":{"id":"g","content":[{"type":"text","text":"` + esc + `"},` +
		`{"type":"tool_use","name":"a\nb` + strings.Repeat("x", 300) + `","input":{"command":"` + strings.Repeat("word ", 300) + `"}},` +
		`{"type":"tool_use","name":"Bash","input":{"command":["git","status"]}},{"type":"tool_use","name":"Bash","input":"free\ntext"},` +
		`{"type":"tool_use","name":"Bash","input":[1]},{"type":"tool_use","name":"Bash"}]}}` + "\n" +
		`{"type":"result","subtype":"SUCCESS; rm -rf /","is_error":false}`
	events, sum := read(t, "claude", []byte(stream), 1<<20)
	var lines []string
	for _, e := range events {
		for _, s := range []string{e.Tool, e.Line} {
			if n := utf8.RuneCountInString(s); n > 200 || strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x202e || r == 0x9b }) {
				t.Errorf("%d runes: %q", n, s)
			}
		}
		lines = append(lines, e.Line)
	}
	if lines[1] != "[31mevil red" || !strings.HasSuffix(lines[2], "…") || lines[3] != "git status" || lines[4] != "free text" || lines[5] != "" {
		t.Errorf("lines %q", lines)
	}
	if sum.Reason != transcript.Failed { // a reason that is none
		t.Errorf("reason %q", sum.Reason)
	}
	if strings.Contains(sum.Report, "\x00") || !strings.Contains(sum.Report, "red") {
		t.Errorf("report %q", sum.Report)
	}
}

// TestBounds: reports, plans and events have an end.
func TestBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", transcript.MaxReport)
	_, sum := read(t, "codex", []byte(`{"type":"item.completed","item":{"type":"agent_message","text":"`+long+`"}}`), 1<<20)
	if len(sum.Report) > transcript.MaxReport || len(sum.Report) < transcript.MaxReport-4 || !sum.Cut || !utf8.ValidString(sum.Report) {
		t.Errorf("a report of %d bytes, cut %v", len(sum.Report), sum.Cut)
	}
	many := strings.Repeat(`{"content":"x","status":"pending"},`, 5000)
	events, sum := read(t, "opencode", []byte(`{"type":"tool_use","part":{"tool":"todowrite","state":{"input":{"todos":[`+strings.TrimSuffix(many, ",")+`]}}}}`), 1<<20)
	if len(sum.Plan) != transcript.MaxPlan || len(events[0].Plan) != transcript.MaxPlan {
		t.Errorf("a plan of %d items", len(sum.Plan))
	}
	flood := bytes.Repeat([]byte(`{"type":"turn_start"}`+"\n"), transcript.MaxEvents+10)
	flood = append(flood, `{"type":"agent_settled"}`...)
	events, sum = read(t, "pi", flood, 1<<20)
	if len(events) != transcript.MaxEvents+1 || sum.Turns != transcript.MaxEvents+10 || events[len(events)-1].Kind != transcript.End {
		t.Errorf("%d events of %d turns", len(events), sum.Turns)
	}
	words := strings.Repeat(`{"type":"message","role":"assistant","content":"`+strings.Repeat("w", 1000)+`"}`+"\n", 1000)
	if _, sum = read(t, "gemini", []byte(words), 1<<20); len(sum.Report) != transcript.MaxReport || !sum.Cut {
		t.Errorf("gemini's report has %d bytes", len(sum.Report))
	}
}

// TestNew: an agent that is not known is refused, and every other is not.
func TestNew(t *testing.T) {
	t.Parallel()
	if _, err := transcript.New("cat", nil); bailey.KindOf(err) != bailey.Unsupported {
		t.Errorf("cat: %v", err)
	}
	if want := []string{"claude", "codex", "gemini", "opencode", "pi"}; !slices.Equal(transcript.Agents(), want) {
		t.Errorf("agents %q", transcript.Agents())
	}
	for _, agent := range transcript.Agents() {
		r, err := transcript.New(agent, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _ = r.Write([]byte("x\n")); r.Summary().Unknown != 1 {
			t.Errorf("%s: %+v", agent, r.Summary())
		}
	}
}

// FuzzReader: no bytes break a reader, and how they are cut does not matter.
func FuzzReader(f *testing.F) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		stream, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stream, 7)
		f.Add(stream[:len(stream)/2], 1)
	}
	f.Add([]byte(`{"type":"result","subtype":"success","result":"\u0000"}`), 3)
	f.Fuzz(func(t *testing.T, stream []byte, piece int) {
		if len(stream) > 1<<16 {
			return
		}
		if piece < 1 || piece > 1000 {
			piece = 1000
		}
		for _, agent := range transcript.Agents() {
			whole, one := read(t, agent, stream, 1<<20)
			cut, two := read(t, agent, stream, piece)
			if diff := cmp.Diff(shown(whole, one), shown(cut, two)); diff != "" {
				t.Fatalf("%s: pieces of %d matter:\n%s", agent, piece, diff)
			}
			for _, e := range whole {
				if !utf8.ValidString(e.Line+e.Tool) || strings.ContainsAny(e.Line+e.Tool, "\n\r\x00\x1b") || len(e.Plan) > transcript.MaxPlan {
					t.Fatalf("%s: event %+v", agent, e)
				}
			}
			if !utf8.ValidString(one.Report) || len(one.Report) > transcript.MaxReport || one.Unknown+one.TooLong > one.Lines {
				t.Fatalf("%s: %+v", agent, one)
			}
		}
	})
}
