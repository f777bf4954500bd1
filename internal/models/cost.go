package models

import (
	"encoding/json"

	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// price takes the model's price out of the file, or out of the shipped list.
func (p *parser) price(m *Model, n *yamlfile.Node) {
	v := yamlfile.Get(n, "price")
	if v == nil {
		list, err := pricing.Shipped()
		if p.Wrong(n, err) {
			return
		}
		if found, ok := list.Find(string(m.Provider.Kind), m.Name); ok {
			m.Price = &found
		}
		return
	}
	m.Price = &pricing.Price{} // what is wrong with it is said once, and not that there is none
	before := p.Problems()
	item := p.rates(v)
	for _, t := range yamlfile.Items(yamlfile.Get(v, "tiers")) {
		tier := pricing.ListItemTier{ListItem: p.rates(t)}
		p.tokens("models."+m.ID+".price.tiers", yamlfile.Get(t, "above"), &tier.Above)
		item.Tiers = append(item.Tiers, tier)
	}
	if p.Problems() > before {
		return
	}
	found, err := item.Price()
	p.Wrong(v, err)
	m.Price = &found
}

// rates reads the prices of a mapping, each held good by itself.
func (p *parser) rates(n *yamlfile.Node) pricing.ListItem {
	rate := func(name string) json.Number {
		v := yamlfile.Get(n, name)
		if v == nil {
			return ""
		}
		_, err := pricing.ParsePerMillion(v.Value)
		p.Wrong(v, err)
		return json.Number(v.Value)
	}
	return pricing.ListItem{Input: rate("input"), Output: rate("output"), CacheRead: rate("cache_read"), CacheWrite: rate("cache_write"), CacheWrite1h: rate("cache_write_1h")}
}

func (p *parser) budget(n *yamlfile.Node) Budget {
	return Budget{Task: p.limit(yamlfile.Get(n, "task")), Day: p.limit(yamlfile.Get(n, "day"))}
}

// limit reads a budget, or a list of them.
func (p *parser) limit(n *yamlfile.Node) budget.Limit {
	if n == nil {
		return budget.Limit{}
	}
	texts := []string{n.Value}
	if yamlfile.IsList(n) {
		texts = nil
		for _, v := range n.Content {
			if _, err := budget.ParseLimits([]string{v.Value}); p.Wrong(v, err) {
				return budget.Limit{}
			}
			texts = append(texts, v.Value)
		}
	}
	l, err := budget.ParseLimits(texts)
	p.Wrong(n, err)
	return l
}

func (p *parser) modelBudget(m *Model, name, n *yamlfile.Node) {
	v := yamlfile.Get(n, "budget")
	m.Budget = p.budget(v)
	const fix = "write price: {input: …, output: …} in USD a million tokens (0 for what costs nothing), or a budget in tokens"
	switch {
	case m.Price != nil:
	case m.Budget.money():
		p.At(v, "the budget is in money, and the model %s has no price; %s", m.ID, fix)
	case p.wholeCost != nil:
		p.At(name, "the budget over all models is in money, and the model %s has no price; %s", m.ID, fix)
	}
}
