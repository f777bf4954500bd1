package models

import (
	"strings"

	"github.com/bailey-dev/bailey/internal/yamlfile"
)

const (
	oneLimit  = `(\$ ?[0-9.]+|[0-9.]+ ?([kKmM]|[uU][sS][dD])?)`
	limitForm = `^` + oneLimit + `( ?, ?` + oneLimit + `)?$`
	countForm = `^[0-9.]+[kKmM]?$`
)

type spec = yamlfile.Spec

func text(help string) *spec { return &spec{Kind: yamlfile.Text, Help: help} }

func tokens(help string) *spec {
	return &spec{Kind: yamlfile.Scalar, Form: countForm, Help: help + " Such as 200000, 200k or 1M."}
}

// keyHint is what is said where a key stands itself in place of its name.
const keyHint = "keep it with bailey secret set NAME --for gateway, and write key: {secret: NAME}; a key that stood here should be made anew at the provider"

// means is a table of what people write, from texts such as "max_output:
// max_tokens max_output_tokens".
func means(lines ...string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		key, others, _ := strings.Cut(line, ": ")
		for word := range strings.FieldsSeq(others) {
			out[word] = key
		}
	}
	return out
}

// root is a whole file.
func root() *spec {
	var kinds []string
	for _, k := range Kinds() {
		kinds = append(kinds, string(k))
	}
	return &spec{Kind: yamlfile.Mapping, Help: "Which models there are, who provides them, and what may be spent on them.", Required: []string{"providers", "models"}, Meant: means("providers: provider servers endpoints", "models: model", "default: default_model", "budget: budgets limit limits"), Keys: []yamlfile.Key{
		{Name: "default", Spec: text("The model of a run that names none. Where there is one model, it is that.")},
		{Name: "budget", Spec: budgetSpec("What may be used over all models.")},
		{Name: "providers", Spec: &spec{Kind: yamlfile.Table, Names: idForm(), NamesHelp: idHelp, Help: "The servers that answer for models, by a name of your own.", Item: &spec{
			Kind: yamlfile.Mapping, Required: []string{"kind"},
			Meant: means("kind: type provider name api", "base_url: url uri endpoint baseurl base-url baseurl api_base api_url base address host server",
				"key: api_key apikey api-key keys token api_token auth auth_token bearer secret secrets password env env_key headers header authorization", "insecure_http: insecure http"),
			Keys: []yamlfile.Key{
				{Name: "kind", Spec: &spec{Kind: yamlfile.Text, Enum: kinds, Help: "What sort of server it is: it sets the dialects, their paths, and the field of the key."}},
				{Name: "base_url", Spec: text("Its address, with the version of its API at the end (/v1) or without. The known services, and a local server at its usual port, need none.")},
				{Name: "key", Spec: &spec{Kind: yamlfile.Mapping, Secret: keyHint, Required: []string{"secret"}, Help: "Its key. A local server needs none.", Keys: []yamlfile.Key{
					{Name: "secret", Spec: text("The name of a secret that is kept for the gateway (bailey secret set NAME --for gateway).")},
				}}},
				{Name: "insecure_http", Spec: &spec{Kind: yamlfile.Flag, Help: "It is asked without TLS though it is not on this machine: whoever is on the way reads the key, and everything that is said."}},
			},
		}}},
		{Name: "models", Spec: &spec{Kind: yamlfile.Table, Names: idForm(), NamesHelp: idHelp, Help: "The models, by a name of your own.", Item: modelSpec()}},
	}}
}

func modelSpec() *spec {
	names := func(help string, item *spec) *spec { return &spec{Kind: yamlfile.Table, Item: item, Help: help} }
	meant := means("provider: providers server", "name: model model_name model_id id served", "dialect: api protocol format wire_api", "context: context_window context_length context_size ctx num_ctx max_context window",
		"max_output: max_tokens max_output_tokens max_completion_tokens maxoutput output_tokens", "max_agents: concurrency parallel max_runs max_parallel agents", "price: prices pricing cost costs",
		"budget: budgets limit limits", "drop: remove without", "extra: params parameters options extra_body body temperature top_p", "description: desc about comment")
	return &spec{Kind: yamlfile.Mapping, Required: []string{"provider"}, Meant: meant, Keys: []yamlfile.Key{
		{Name: "provider", Spec: text("The name of its provider.")},
		{Name: "name", Spec: text("The provider's name for it, which is sent. Without it: the name here.")},
		{Name: "dialect", Spec: &spec{Kind: yamlfile.Text, Enum: allDialects(), Help: "The protocol that is spoken. Without it: the usual one of the provider's kind."}},
		{Name: "context", Spec: tokens("How much it takes, in tokens.")},
		{Name: "max_output", Spec: tokens("How much it answers at most, in tokens; calls that ask for more are lowered to it.")},
		{Name: "max_agents", Spec: &spec{Kind: yamlfile.Number, Min: 1, Max: maxAgents, What: "a number of runs", Help: "How many runs may use it at once."}},
		{Name: "price", Spec: &spec{Kind: yamlfile.Mapping, Required: []string{"input", "output"}, Meant: ratesMeant(), Keys: append(rateKeys(), yamlfile.Key{Name: "tiers", Spec: &spec{
			Kind: yamlfile.List, Least: 1, Help: "What a whole call costs whose input is longer, the shortest first.", Item: &spec{Kind: yamlfile.Mapping, Required: []string{"above", "input", "output"}, Meant: ratesMeant(), Keys: append([]yamlfile.Key{{Name: "above", Spec: tokens("Tokens of input, the cached ones included.")}}, rateKeys()...)},
		}}), Help: "USD a million tokens. Without it: the shipped list's (bailey models list), and none for a model that is not there."}},
		{Name: "budget", Spec: budgetSpec("What may be used of this model.")},
		{Name: "drop", Spec: &spec{Kind: yamlfile.List, Least: 1, Item: text("Such as temperature."), Help: "Parameters of requests that are removed."}},
		{Name: "rename", Spec: names("Parameters of requests that are sent under another name.", text("The name that is sent."))},
		{Name: "extra", Spec: names("Parameters that are added to each request; they win over those that are there.", &spec{Kind: yamlfile.Any})},
		{Name: "description", Spec: text("What it is for, on one line.")},
	}}
}

func ratesMeant() map[string]string {
	return means("input: in prompt input_tokens", "output: out completion output_tokens", "cache_read: cached cached_input cache read", "cache_write: cache_creation write")
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
		return &spec{Kind: yamlfile.OneOrMore, Least: 1, Help: help + " Tokens (20000, 500k, 2M) or money (5usd); both with a comma, or by a list.", Item: &spec{Kind: yamlfile.Scalar, Form: limitForm}}
	}
	return &spec{Kind: yamlfile.Mapping, Help: help, Meant: means("task: run session per_task per_run", "day: daily per_day today"), Keys: []yamlfile.Key{
		{Name: "task", Spec: amount("By one run.")},
		{Name: "day", Spec: amount("In one day, by UTC.")},
	}}
}

// Schema returns the JSON Schema of a file of models.
func Schema() ([]byte, error) { return yamlfile.Schema("models.yaml", root()) }
