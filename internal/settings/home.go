package settings

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// Home is what the user's own file says of agents' homes.
type Home struct {
	Pin []string // dotted paths of settings that no run may change for the next
}

func homeSpec() *yamlfile.Spec {
	return &yamlfile.Spec{Kind: yamlfile.Mapping, Help: "What of agents' homes is kept from one run to the next; of the user's own file alone.", Keys: []yamlfile.Key{
		{Name: "pin", Spec: &yamlfile.Spec{Kind: yamlfile.List, Least: 1, Item: &yamlfile.Spec{Kind: yamlfile.Text, Help: "A key of an agent's settings, with dots between its parts (statusLine.type)."}, Help: "Settings of agents that are as the host has them on every run, whatever an earlier run has changed."}},
	}}
}

// home takes the section out of a node that the schema holds good.
func (p *parser) home(n *yaml.Node, project bool) Home {
	if n != nil && project { // what an earlier run has left is the user's business
		p.At(n, "home: only your own file says what of a home is kept; leave it out here")
	}
	var out Home
	for _, v := range yamlfile.Items(yamlfile.Get(n, "pin")) {
		if strings.TrimSpace(v.Value) != v.Value || strings.HasPrefix(v.Value, ".") || strings.HasSuffix(v.Value, ".") {
			p.At(v, "home.pin: %q is not a key; write its parts with dots between", v.Value)
			continue
		}
		out.Pin = append(out.Pin, v.Value)
	}
	return out
}

// LoadHome reads what the user's own file says of homes.
func LoadHome(p Place) (Home, error) {
	f, err := readUser(p.UserFile())
	if err != nil || f == nil {
		return Home{}, err
	}
	return f.Home, nil
}
