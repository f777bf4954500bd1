package openai

import (
	"encoding/json"

	"github.com/bailey-dev/bailey/internal/gateway/tally"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// usage is what an answer of either dialect says that was used. Fields of other
// providers with the same dialect are here where they change the sum; fields
// that nobody knows are nobody's trouble.
type usage struct {
	// Responses
	InputTokens   json.RawMessage `json:"input_tokens"`
	InputDetails  details         `json:"input_tokens_details"`
	OutputTokens  json.RawMessage `json:"output_tokens"`
	OutputDetails details         `json:"output_tokens_details"`

	// Chat Completions
	PromptTokens      json.RawMessage `json:"prompt_tokens"`
	PromptDetails     details         `json:"prompt_tokens_details"`
	CompletionTokens  json.RawMessage `json:"completion_tokens"`
	CompletionDetails details         `json:"completion_tokens_details"`

	TotalTokens json.RawMessage `json:"total_tokens"`

	// Others' names for prompt_tokens_details.cached_tokens.
	CacheHit json.RawMessage `json:"prompt_cache_hit_tokens"`
	Cached   json.RawMessage `json:"cached_tokens"`
}

type details struct {
	Cached    json.RawMessage `json:"cached_tokens"`
	Written   json.RawMessage `json:"cache_write_tokens"`
	Lives     lives           `json:"cache_write_tokens_details"`
	Reasoning json.RawMessage `json:"reasoning_tokens"`
	Audio     json.RawMessage `json:"audio_tokens"`
}

// lives are the parts of what was written to the cache: for half an hour,
// which is the default, and longer.
type lives struct {
	Long json.RawMessage `json:"ttl_12h_tokens"`
}

// counter turns usage into disjoint classes. Each dialect names its own.
type counter struct {
	tally.Tally

	input, output string // the names of the sums
	got           pricing.Usage
	known         bool // both sums were said
}

// take reads one statement of usage. It reports whether there was one.
func (c *counter) take(raw json.RawMessage) bool {
	if !tally.Present(raw) {
		return false
	}
	var u usage
	if err := json.Unmarshal(raw, &u); err != nil {
		// What could be read was: the decoder goes on after a wrong type.
		c.Note("usage is not as it should be")
	}
	in, out := u.InputTokens, u.OutputTokens
	inDetails, outDetails := u.InputDetails, u.OutputDetails
	if c.input == "prompt_tokens" {
		in, out = u.PromptTokens, u.CompletionTokens
		inDetails, outDetails = u.PromptDetails, u.CompletionDetails
	}
	c.inputs(c.Count(c.input, in), inDetails, u)
	c.outputs(c.Count(c.output, out), outDetails, u.TotalTokens)
	c.known = c.Has(c.input) && c.Has(c.output)
	return true
}

// inputs splits the input: what was read from the cache, and written to it, are
// parts of the sum.
func (c *counter) inputs(sum int64, d details, u usage) {
	cached := c.Count("cached_tokens", d.Cached)
	if !c.Has("cached_tokens") {
		cached = max(c.Count("prompt_cache_hit_tokens", u.CacheHit), c.Count("cached_tokens", u.Cached))
	}
	written := c.Count("cache_write_tokens", d.Written)
	long := c.Count("ttl_12h_tokens", d.Lives.Long)
	if long > written {
		c.Note("more was written to the cache for long than at all")
		written = long
	}
	rest := sum - cached - written
	if rest < 0 {
		c.Note("the parts of %s are more than the sum", c.input)
		rest = 0
	}
	if c.Count("audio_tokens", d.Audio) > 0 {
		c.Note("audio counts as text")
	}
	c.got.Input, c.got.CacheRead = rest, cached
	c.got.CacheWrite, c.got.CacheWrite1h = written-long, long
}

// outputs counts the output. Some providers leave the reasoning out of it and
// have it in the total alone.
func (c *counter) outputs(sum int64, d details, total json.RawMessage) {
	reasoning := c.Count("reasoning_tokens", d.Reasoning)
	all := c.Count("total_tokens", total)
	if c.Has(c.input) && all > 0 {
		if more := all - c.Count(c.input, nil) - sum; more > 0 {
			if more != reasoning {
				c.Note("total_tokens is more than its parts")
			}
			sum += more
		}
	}
	if reasoning > sum {
		c.Note("reasoning_tokens is more than %s", c.output)
		sum = reasoning
	}
	c.got.Output, c.got.Reasoning = sum, reasoning
}

// tool counts a tool that ran at the provider's, which none should have.
func (c *counter) tool(name string, n int64) {
	if n <= c.got.Tools[name] {
		return
	}
	if c.got.Tools == nil {
		c.got.Tools = map[string]int64{}
	}
	c.got.Tools[name] = n
	c.Note("%s ran at the provider's", name)
}
