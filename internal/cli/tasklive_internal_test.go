package cli

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bailey-dev/bailey/internal/task"
)

// TestView_DrawsOverItself: a frame goes up by the lines of the last, has no
// more lines and columns than the terminal, and nothing of an agent's acts.
func TestView_DrawsOverItself(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, size := range [][2]int{{24, 80}, {6, 20}, {1, 3}, {200, 500}} {
		v := &view{size: func() (int, int) { return size[0], size[1] }}
		s := &watcher{tasks: map[task.ID]*followed{}}
		for _, p := range []task.Progress{
			{Kind: "state", State: task.Running, Time: began},
			{Kind: "plan", Plan: []task.Step{{Text: "look \x1b[2J\u202e", State: "done"}, {Text: "世界世界世界世界世界世界", State: "active"}, {Text: "end"}}},
			{Kind: "turn", Turn: 3},
			{Kind: "text", Message: "hm\x1b]0;t\x07"},
			{Kind: "tool", Tool: "Bash\r", Message: strings.Repeat("make ", 100)},
			{Kind: "usage", Usage: &task.Usage{InputTokens: 1234}},
		} {
			f := s.tasks["a-1"]
			if f == nil {
				f = &followed{id: "a-1"}
				s.tasks["a-1"] = f
			}
			f.note(p)
		}
		list := []*followed{s.tasks["a-1"]}
		first := v.frame(list, began.Add(time.Minute), false)
		lines := v.lines
		if lines > max(1, size[0]-1) {
			t.Errorf("%v: %d lines", size, lines)
		}
		second := v.frame(list, began.Add(time.Minute), false)
		if up := "\x1b[" + strconv.Itoa(lines) + "A"; strings.HasPrefix(first, "\x1b[") || !strings.HasPrefix(second, up) {
			t.Errorf("%v: %q does not go up by %d", size, second[:min(10, len(second))], lines)
		}
		rest := strings.NewReplacer("\r\x1b[2K", "", "\x1b[J", "", "\n", "").Replace(first)
		if strings.ContainsAny(rest, "\x1b\r\x07\u202e") {
			t.Errorf("%v: %q", size, rest)
		}
		for l := range strings.Lines(strings.ReplaceAll(first, "\r\x1b[2K", "")) {
			if n := len([]rune(strings.TrimSpace(strings.ReplaceAll(l, "\x1b[J", "")))); n > size[1] {
				t.Errorf("%v: %d characters in %q", size, n, l)
			}
		}
		if size[0] == 24 && (!strings.Contains(first, "[x] look \\x1b[2J\\u202e") || !strings.Contains(first, "[>] 世界") || !strings.Contains(first, "1m0s") || !strings.Contains(first, "1234 tokens")) {
			t.Errorf("%q", first)
		}
	}
}
