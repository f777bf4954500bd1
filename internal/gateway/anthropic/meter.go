package anthropic

import (
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// Meter reads the answer to a call of this dialect.
func (m *Messages) Meter(c *gateway.Call) gateway.Meter {
	st, ok := c.State().(*state)
	return &meter{free: ok && st.count}
}

// meter reads one answer. The counts of a stream are cumulative and come more
// than once: the largest of each is what was used, and they are never added up.
type meter struct {
	free bool // the count of tokens costs nothing

	used   counts
	beside counts // model calls of the provider's own, which the top-level counts leave out
	tools  map[string]int64
	broken bool // a count cannot be used
	said   bool // a usage for the whole answer was there
	ended  bool
	failed bool

	bytes    int64 // of the text that was seen
	thinking int64 // tokens of thinking that is not shown, as the provider estimates it
	served   string
	odd      []string
}

// counts are those of one usage.
type counts struct {
	input, read, write, write5m, write1h, output, reasoning int64
}

// Event reads one event of a stream. All of them are the client's as well.
func (m *meter) Event(name string, data []byte) (pass bool) {
	v, err := document.Parse(data, document.Limits{})
	if err != nil {
		m.strange("an event that is no JSON")
		return true
	}
	if name == "" {
		name = v.Get("type").Str()
	}
	switch name {
	case "message_start":
		m.serves(v.Get("message").Get("model").Str())
		m.usage(v.Get("message").Get("usage"))
	case "content_block_start":
		block := v.Get("content_block")
		m.bytes += int64(len(block.Get("text").Str()) + len(block.Get("thinking").Str()) + len(block.Get("data").Str()))
	case "content_block_delta":
		m.delta(v.Get("delta"))
	case "message_delta":
		usage := v.Get("usage")
		m.usage(usage)
		m.said = m.said || (usage.Get("output_tokens") != nil && v.Get("delta").Get("stop_reason").Str() != "")
	case "message_stop":
		m.ended = true
	case "error":
		m.failed = true
		m.strange("the provider broke off: " + v.Get("error").Get("type").Str())
	}
	return true
}

func (m *meter) delta(v *document.Value) {
	for _, name := range []string{"text", "thinking", "partial_json"} {
		m.bytes += int64(len(v.Get(name).Str()))
	}
	if n, ok := v.Get("estimated_tokens").Int(); ok && n > 0 && n < mostCount {
		m.thinking += n
	}
}

// Whole reads an answer that is no stream.
func (m *meter) Whole(body []byte) []byte {
	v, err := document.Parse(body, document.Limits{})
	if err != nil {
		m.strange("the answer is no JSON")
		m.bytes = int64(len(body))
		return body
	}
	if v.Get("type").Str() == "error" {
		m.failed = true
		return body
	}
	m.ended = true
	if m.free {
		return body
	}
	m.bytes = int64(len(body))
	m.serves(v.Get("model").Str())
	usage := v.Get("usage")
	m.usage(usage)
	m.said = usage.Get("input_tokens") != nil && usage.Get("output_tokens") != nil
	return body
}

// Result is what is known so far.
func (m *meter) Result() gateway.Result {
	if m.free {
		return gateway.Result{Known: true, Ended: m.ended, Odd: strings.Join(m.odd, "; ")}
	}
	odd := m.odd
	usage := m.total()
	// No request is without input: some servers count none in a stream.
	counted := usage.Input+usage.CacheRead+usage.CacheWrite+usage.CacheWrite1h > 0
	switch {
	case m.ended && !m.said:
		odd = append(slices.Clip(odd), "no usage for the whole answer")
	case m.said && !counted:
		odd = append(slices.Clip(odd), "no input was counted")
	}
	return gateway.Result{
		Usage:  usage,
		Known:  m.said && counted && !m.broken,
		Ended:  m.ended,
		Failed: m.failed,
		Output: (m.bytes+2)/3 + m.thinking,
		Served: m.served,
		Odd:    strings.Join(odd, "; "),
	}
}

func (m *meter) total() pricing.Usage {
	u := pricing.Usage{Tools: m.tools}
	for _, c := range []counts{m.used, m.beside} {
		u.Input += c.input
		u.CacheRead += c.read
		u.CacheWrite1h += c.write1h
		u.CacheWrite += max(c.write-c.write1h, c.write5m, 0)
		u.Output += c.output
		u.Reasoning += c.reasoning
	}
	return u
}

// usage takes a usage object in.
func (m *meter) usage(v *document.Value) {
	if v == nil || v.Kind != document.Object {
		return
	}
	m.counts(&m.used, v)
	m.count(&m.used.reasoning, v.Get("output_tokens_details"), "thinking_tokens")
	m.beyond(v.Get("iterations"))
	m.toolCounts(v.Get("server_tool_use"))
	for name, usual := range map[string]string{"service_tier": "standard", "speed": "standard"} {
		if s := v.Get(name).Str(); s != "" && s != usual {
			m.strange(name + " " + s)
		}
	}
}

func (m *meter) counts(c *counts, v *document.Value) {
	m.count(&c.input, v, "input_tokens")
	m.count(&c.read, v, "cache_read_input_tokens")
	m.count(&c.write, v, "cache_creation_input_tokens")
	m.count(&c.write5m, v.Get("cache_creation"), "ephemeral_5m_input_tokens")
	m.count(&c.write1h, v.Get("cache_creation"), "ephemeral_1h_input_tokens")
	m.count(&c.output, v, "output_tokens")
}

// mostCount is beyond what any call uses. Counts above it are not believed.
const mostCount = 1 << 40

// count raises *n to a member's count.
func (m *meter) count(n *int64, v *document.Value, name string) {
	member := v.Get(name)
	if member == nil || member.Kind == document.Null {
		return
	}
	got, ok := member.Int()
	switch {
	case !ok || got > mostCount:
		m.broken = true
		m.strange(name + " is no count")
	case got < 0:
		m.broken = true
		m.strange(name + " is negative")
	case got < *n:
		m.strange(name + " decreased")
	default:
		*n = got
	}
}

// beyond adds up the entries of usage.iterations that the top-level counts do
// not hold. The list is cumulative as well, so that the largest sums stand.
func (m *meter) beyond(list *document.Value) {
	if list == nil {
		return
	}
	var sum counts
	for _, entry := range list.Items {
		typ := entry.Get("type").Str()
		if typ == "message" || typ == "fallback_message" {
			continue
		}
		m.strange("iterations: " + typ)
		var c counts
		m.counts(&c, entry)
		sum = counts{
			input: sum.input + c.input, read: sum.read + c.read,
			write: sum.write + c.write, write5m: sum.write5m + c.write5m, write1h: sum.write1h + c.write1h,
			output: sum.output + c.output,
		}
	}
	b := &m.beside
	*b = counts{
		input: max(b.input, sum.input), read: max(b.read, sum.read),
		write: max(b.write, sum.write), write5m: max(b.write5m, sum.write5m), write1h: max(b.write1h, sum.write1h),
		output: max(b.output, sum.output),
	}
}

// toolCounts reads the counts of the provider's tools, of which none should have
// run.
func (m *meter) toolCounts(v *document.Value) {
	if v == nil || len(v.Members) > 32 {
		return
	}
	for _, member := range v.Members {
		var n int64
		m.count(&n, v, member.Name)
		if n == 0 {
			continue
		}
		if m.tools == nil {
			m.tools = map[string]int64{}
		}
		m.tools[member.Name] = max(m.tools[member.Name], n)
		m.strange("a tool of the provider's ran: " + member.Name)
	}
}

func (m *meter) serves(model string) {
	if model == "" {
		return
	}
	if len(model) > 256 {
		model = document.Quote(model)
	}
	if m.served != "" && m.served != model {
		m.strange("the model changed in the middle")
	}
	m.served = model
}

// strange notes something once.
func (m *meter) strange(what string) {
	if len(what) > 100 {
		what = document.Quote(what)
	}
	if len(m.odd) < 16 && !slices.Contains(m.odd, what) {
		m.odd = append(m.odd, what)
	}
}
