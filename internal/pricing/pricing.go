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

// Tokens is the sum that a budget in tokens counts. A class below zero counts
// as nothing, and the sum is at most the largest number.
func (u Usage) Tokens() int64 { return Add(u.allInput(), max(u.Output, 0)) }

// allInput is the sum of the classes of input.
func (u Usage) allInput() int64 {
	var sum int64
	for _, n := range []int64{u.Input, u.CacheRead, u.CacheWrite, u.CacheWrite1h} {
		sum = Add(sum, max(n, 0))
	}
	return sum
}
