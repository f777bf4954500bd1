package pricing

// Rates are the prices of one token of each class.
type Rates struct {
	Input        Money `json:"input"`
	Output       Money `json:"output"`
	CacheRead    Money `json:"cache_read"`
	CacheWrite   Money `json:"cache_write"`
	CacheWrite1h Money `json:"cache_write_1h"`
}

// dearest is the most that a token of input can cost.
func (r Rates) dearest() Money {
	return max(r.Input, r.CacheRead, r.CacheWrite, r.CacheWrite1h)
}

// Price is what a model costs. The zero Price is one of nothing at all, which is
// an operator's to say: what is not known has no Price.
type Price struct {
	Rates

	Tiers []Tier `json:"tiers,omitempty"` // by Above, rising
}

// Tier is what a whole call costs whose input, cached and written tokens
// included, is more than Above.
type Tier struct {
	Above int64 `json:"above"`
	Rates
}

// at is what holds for a call of so much input.
func (p Price) at(input int64) Rates {
	rates := p.Rates
	for _, t := range p.Tiers {
		if input > t.Above {
			rates = t.Rates
		}
	}
	return rates
}

// toolPrice is what one use of a provider's tool costs: none runs here, and the
// dearest that is on a price list is what one costs that was counted.
const toolPrice = USD * 35 / 1000

// Cost is what a call costs that used u. It is exact, and at most the largest
// amount; a class below zero costs nothing.
func Cost(u Usage, p Price) Money {
	r := p.at(u.allInput())
	sum := r.Input.Times(u.Input).
		Plus(r.CacheRead.Times(u.CacheRead)).
		Plus(r.CacheWrite.Times(u.CacheWrite)).
		Plus(r.CacheWrite1h.Times(u.CacheWrite1h)).
		Plus(r.Output.Times(u.Output))
	for _, n := range u.Tools {
		sum = sum.Plus(toolPrice.Times(n))
	}
	return sum
}

// Most is the most that a call can cost with so much input, of whatever class,
// and so much output.
func (p Price) Most(input, output int64) Money {
	r := p.at(input)
	return r.dearest().Times(input).Plus(r.Output.Times(output))
}

// Affordable is how many tokens of output a call may have with so much input, if
// it is to cost no more than left; below zero: its input alone costs more.
func (p Price) Affordable(left Money, input int64) int64 {
	const boundless = 1 << 62
	r := p.at(input)
	rest := left - r.dearest().Times(input)
	switch {
	case left < 0 || rest < 0:
		return -1
	case r.Output <= 0:
		return boundless
	}
	return int64(rest / r.Output)
}
