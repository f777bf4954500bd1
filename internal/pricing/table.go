package pricing

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed table.json
var tableData []byte

// List is a list of prices in dollars a million tokens, as it is written down.
type List struct {
	Dated  string                         `json:"dated"`  // the day on which it was looked up
	Source string                         `json:"source"` // where
	Models map[string]map[string]ListItem `json:"models"` // by kind of provider, then by the provider's name
}

// ListItem is the prices of one model as they are written down. What is absent
// is derived: see Price.
type ListItem struct {
	Input        json.Number    `json:"input"`
	Output       json.Number    `json:"output"`
	CacheRead    json.Number    `json:"cache_read,omitempty"`
	CacheWrite   json.Number    `json:"cache_write,omitempty"`
	CacheWrite1h json.Number    `json:"cache_write_1h,omitempty"`
	Tiers        []ListItemTier `json:"tiers,omitempty"`
}

// ListItemTier is what holds above so much input.
type ListItemTier struct {
	Above int64 `json:"above"`
	ListItem
}

// Shipped is the list of this program, read once.
var Shipped = sync.OnceValues(func() (List, error) {
	dec := json.NewDecoder(bytes.NewReader(tableData))
	dec.DisallowUnknownFields()
	var l List
	if err := dec.Decode(&l); err != nil {
		return List{}, fmt.Errorf("bug: read the list of prices: %w", err)
	}
	return l, nil
})

// Find returns the price of a model by the kind of its provider and the
// provider's name for it, exactly. What is not in the list has none.
func (l List) Find(kind, name string) (Price, bool) {
	item, ok := l.Models[kind][name]
	if !ok {
		return Price{}, false
	}
	p, err := item.Price()
	return p, err == nil
}

// Price reads what is written down. Where a price is absent the call is never
// cheaper for it: a read of the cache costs as input does, a write 1.25 times
// that, and a write for an hour twice.
func (i ListItem) Price() (Price, error) {
	rates, err := i.rates()
	if err != nil {
		return Price{}, err
	}
	p := Price{Rates: rates}
	var last int64
	for _, t := range i.Tiers {
		rates, err := t.rates()
		if err != nil {
			return Price{}, err
		}
		if t.Above <= last {
			return Price{}, fmt.Errorf("the tier above %d does not follow one above %d", t.Above, last)
		}
		last = t.Above
		p.Tiers = append(p.Tiers, Tier{t.Above, rates})
	}
	return p, nil
}

func (i ListItem) rates() (r Rates, err error) {
	for _, v := range []struct {
		to      *Money
		text    json.Number
		derived func() Money
	}{
		{&r.Input, i.Input, nil},
		{&r.Output, i.Output, nil},
		{&r.CacheRead, i.CacheRead, func() Money { return r.Input }},
		{&r.CacheWrite, i.CacheWrite, func() Money { return r.Input.Plus((r.Input + 3) / 4) }},
		{&r.CacheWrite1h, i.CacheWrite1h, func() Money { return max(r.Input.Times(2), r.CacheWrite) }},
	} {
		if v.text == "" && v.derived != nil {
			*v.to = v.derived()
			continue
		}
		if *v.to, err = ParsePerMillion(v.text.String()); err != nil {
			return Rates{}, err
		}
	}
	return r, nil
}
