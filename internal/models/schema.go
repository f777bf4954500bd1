package models

import (
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

const limitForm = `^(\$ ?[0-9.]+|[0-9.]+ ?([kKmM]|[uU][sS][dD])?)$`

type spec = yamlfile.Spec

func text(help string) *spec { return &spec{Kind: yamlfile.Text, Help: help} }

func tokens(help string) *spec {
	const most = 1_000_000_000
	return &spec{Kind: yamlfile.Number, Min: 1, Max: most, What: "a number of tokens", Help: help}
}

// root is a whole file.
func root() *spec {
	var kinds []string
	for _, k := range Kinds() {
		kinds = append(kinds, string(k))
	}
	return &spec{Kind: yamlfile.Mapping, Help: "Which models there are, who provides them, and what may be spent on them.", Required: []string{"providers", "models"}, Keys: []yamlfile.Key{
		{Name: "default", Spec: text("The model of a run that names none. Where there is one model, it is that.")},
		{Name: "budget", Spec: budgetSpec("What may be used over all models.")},
		{Name: "providers", Spec: &spec{Kind: yamlfile.Table, Names: idForm, NamesHelp: idHelp, Help: "The servers that answer for models, by a name of your own.", Item: &spec{
			Kind: yamlfile.Mapping, Required: []string{"kind"}, Keys: []yamlfile.Key{
				{Name: "kind", Spec: &spec{Kind: yamlfile.Text, Enum: kinds, Help: "What sort of server it is: it sets the dialects, their paths, and the field of the key."}},
				{Name: "base_url", Spec: text("Its address, with the version of its API at the end (/v1) or without. The known services, and a local server at its usual port, need none.")},
				{Name: "key", Spec: &spec{Kind: yamlfile.Mapping, Required: []string{"secret"}, Help: "Its key. A local server needs none.", Keys: []yamlfile.Key{
					{Name: "secret", Spec: text("The name of a secret that is kept for the gateway (bailey secret set NAME --for gateway).")},
				}}},
				{Name: "insecure_http", Spec: &spec{Kind: yamlfile.Flag, Help: "It is asked without TLS though it is not on this machine: whoever is on the way reads the key, and everything that is said."}},
			},
		}}},
		{Name: "models", Spec: &spec{Kind: yamlfile.Table, Names: idForm, NamesHelp: idHelp, Help: "The models, by a name of your own.", Item: modelSpec()}},
	}}
}

func modelSpec() *spec {
	names := func(help string, item *spec) *spec { return &spec{Kind: yamlfile.Table, Item: item, Help: help} }
	return &spec{Kind: yamlfile.Mapping, Required: []string{"provider"}, Keys: []yamlfile.Key{
		{Name: "provider", Spec: text("The name of its provider.")},
		{Name: "name", Spec: text("The provider's name for it, which is sent. Without it: the name here.")},
		{Name: "dialect", Spec: &spec{Kind: yamlfile.Text, Enum: allDialects(), Help: "The protocol that is spoken. Without it: the usual one of the provider's kind."}},
		{Name: "context", Spec: tokens("How much it takes, in tokens.")},
		{Name: "max_output", Spec: tokens("How much it answers at most, in tokens; calls that ask for more are lowered to it.")},
		{Name: "max_agents", Spec: &spec{Kind: yamlfile.Number, Min: 1, Max: maxAgents, What: "a number of runs", Help: "How many runs may use it at once."}},
		{Name: "price", Spec: &spec{Kind: yamlfile.Mapping, Required: []string{"input", "output"}, Keys: append(rateKeys(), yamlfile.Key{Name: "tiers", Spec: &spec{
			Kind: yamlfile.List, Least: 1, Help: "What a whole call costs whose input is longer, the shortest first.", Item: &spec{Kind: yamlfile.Mapping, Required: []string{"above", "input", "output"}, Keys: append([]yamlfile.Key{{Name: "above", Spec: tokens("Tokens of input, the cached ones included.")}}, rateKeys()...)},
		}}), Help: "USD a million tokens. Without it: the shipped list's (bailey models list), and none for a model that is not there."}},
		{Name: "budget", Spec: budgetSpec("What may be used of this model.")},
		{Name: "drop", Spec: &spec{Kind: yamlfile.List, Least: 1, Item: text("Such as temperature."), Help: "Parameters of requests that are removed."}},
		{Name: "rename", Spec: names("Parameters of requests that are sent under another name.", text("The name that is sent."))},
		{Name: "extra", Spec: names("Parameters that are added to each request; they win over those that are there.", &spec{Kind: yamlfile.Any})},
		{Name: "description", Spec: text("What it is for, on one line.")},
	}}
}

func rateKeys() []yamlfile.Key {
	rate := func(help string) *spec { return &spec{Kind: yamlfile.Scalar, Form: `^[0-9]+(\.[0-9]+)?$`, Help: help} }
	return []yamlfile.Key{
		{Name: "input", Spec: rate("Input.")},
		{Name: "output", Spec: rate("Output.")},
		{Name: "cache_read", Spec: rate("Input that is read from a cache. Without it: as input.")},
		{Name: "cache_write", Spec: rate("Input that is written to a cache. Without it: 1.25 times the input.")},
		{Name: "cache_write_1h", Spec: rate("Input that is written to a cache for an hour. Without it: twice the input.")},
	}
}

func budgetSpec(help string) *spec {
	amount := func(help string) *spec {
		return &spec{Kind: yamlfile.OneOrMore, Least: 1, Help: help + " Tokens (20000, 500k, 2M) or money (5usd); a list for both.", Item: &spec{Kind: yamlfile.Scalar, Form: limitForm}}
	}
	return &spec{Kind: yamlfile.Mapping, Help: help, Keys: []yamlfile.Key{
		{Name: "task", Spec: amount("By one run.")},
		{Name: "day", Spec: amount("In one day, by UTC.")},
	}}
}

// Schema returns the JSON Schema of a file of models.
func Schema() ([]byte, error) { return yamlfile.Schema("models.yaml", root()) }
