// Package pricing turns what a model call used into money.
//
// It is pure: prices are data, shipped in a dated table or given by the
// operator, and money is an integer. What has no price is an error where money
// is asked for, never free.
package pricing

// Usage is what a call used, in tokens. The classes are disjoint, whatever the
// provider's own arithmetic is: Input holds neither cached nor written tokens,
// and Output holds the reasoning.
type Usage struct {
	Input        int64 `json:"input"`
	CacheRead    int64 `json:"cache_read,omitempty"`
	CacheWrite   int64 `json:"cache_write,omitempty"`    // with the default life
	CacheWrite1h int64 `json:"cache_write_1h,omitempty"` // with a life of an hour or more, which costs more
	Output       int64 `json:"output"`
	Reasoning    int64 `json:"reasoning,omitempty"` // of Output

	// Priced tools of the provider's, by name. The gateway lets none run, so
	// one that was counted all the same is told and costs what the table says.
	Tools map[string]int64 `json:"tools,omitempty"`
}

// Tokens is the sum that a budget in tokens counts.
func (u Usage) Tokens() int64 {
	return u.Input + u.CacheRead + u.CacheWrite + u.CacheWrite1h + u.Output
}

// Money is an amount in 10^-12 USD, in which every price a token is whole.
type Money int64

// USD is one dollar.
const USD Money = 1_000_000_000_000
