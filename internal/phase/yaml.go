package phase

import (
	"strconv"
	"strings"
	"time"

	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

type spec = yamlfile.Spec

func text(help string) *spec { return &spec{Kind: yamlfile.Text, Help: help} }

func number(most int64, what, help string) *spec {
	return &spec{Kind: yamlfile.Number, Min: 1, Max: most, What: what, Help: help}
}

const durationHelp = " A number with s, m or h."

// settingKeys are those of a plan's settings, in YAML and at the top of Markdown.
func settingKeys() []yamlfile.Key {
	return []yamlfile.Key{
		{Name: "title", Spec: text("What the plan is called in reports.")},
		{Name: "agent", Spec: text("The agent that works on the units, by name.")},
		{Name: "model", Spec: text("The model of models.yaml that it uses.")},
		{Name: "validate", Spec: text("The command that says whether a unit is done, run by a shell in a sandbox. Without it: .agents/validate.sh.")},
		{Name: "tries", Spec: number(MostTries, "a number of tries", "How often a unit is tried.")},
		{Name: "max_turns", Spec: number(mostTurns, "a number of turns", "How often the agent may ask the model in one try.")},
		{Name: "timeout", Spec: text("How long the agent may work in one try." + durationHelp)},
		{Name: "deadline", Spec: text("How long all units may take together." + durationHelp)},
		{Name: "budget", Spec: &spec{Kind: yamlfile.OneOrMore, Item: &spec{Kind: yamlfile.Scalar, Help: "Such as 2M or 5usd."}, Help: "What all units may use of the model together."}},
	}
}

func meant() map[string]string {
	return map[string]string{
		"name": "title", "harness": "agent", "validation": "validate", "check": "validate", "checks": "validate", "retries": "tries", "retry": "tries", "turns": "max_turns",
		"phases": "units", "tasks": "units", "steps": "units", "limit": "budget",
	}
}

func frontSpec() *spec {
	return &spec{Kind: yamlfile.Mapping, Help: "Settings of the plan.", Keys: settingKeys(), Meant: meant()}
}

// root is a whole plan in YAML.
func root() *spec {
	return &spec{Kind: yamlfile.Mapping, Help: "A plan: units of work that agents do one after another (bailey phase run).", Required: []string{"units"}, Meant: meant(), Keys: append(settingKeys(),
		yamlfile.Key{Name: "units", Spec: &spec{Kind: yamlfile.List, Least: 1, Help: "The units, in their order.", Item: &spec{
			Kind: yamlfile.Mapping, Help: "A unit.", Required: []string{"title"},
			Meant: map[string]string{"name": "title", "text": "prompt", "task": "prompt", "description": "prompt", "check": "validate", "retries": "tries"},
			Keys: []yamlfile.Key{
				{Name: "title", Spec: text("One line: what is to be done. It is the subject of the commit.")},
				{Name: "prompt", Spec: text("What else the agent is told.")},
				{Name: "section", Spec: text("The part of the plan that it belongs to.")},
				{Name: "done", Spec: &spec{Kind: yamlfile.Flag, Help: "It is passed over."}},
				{Name: "validate", Spec: text("As above, for this unit.")},
				{Name: "tries", Spec: number(MostTries, "a number of tries", "As above, for this unit.")},
				{Name: "timeout", Spec: text("As above, for this unit.")},
			},
		}}},
	)}
}

// Schema returns the JSON Schema of a plan in YAML.
func Schema() ([]byte, error) { return yamlfile.Schema("plan of bailey phase", root()) }

func (p *parser) yaml(data []byte) *Plan {
	plan := &Plan{}
	top := p.Document(data, root())
	if top == nil || p.Problems() > 0 {
		return plan
	}
	plan.Settings = p.settings(top)
	plan.Title = value(yamlfile.Get(top, "title"))
	for _, n := range yamlfile.Items(yamlfile.Get(top, "units")) {
		u := Unit{
			Title: strings.TrimSpace(value(yamlfile.Get(n, "title"))), Text: strings.TrimRight(value(yamlfile.Get(n, "prompt")), "\n "),
			Section: value(yamlfile.Get(n, "section")), Validate: value(yamlfile.Get(n, "validate")), Done: value(yamlfile.Get(n, "done")) == "true",
			Tries: count(yamlfile.Get(n, "tries")), Timeout: p.duration(yamlfile.Get(n, "timeout")),
		}
		if strings.Contains(u.Title, "\n") {
			p.At(n, "the title has more than one line")
		}
		p.unit(plan, u, n.Line)
	}
	return plan
}

func (p *parser) settings(top *yamlfile.Node) Settings {
	s := Settings{
		Agent: value(yamlfile.Get(top, "agent")), Model: value(yamlfile.Get(top, "model")), Validate: value(yamlfile.Get(top, "validate")),
		Tries: count(yamlfile.Get(top, "tries")), MaxTurns: count(yamlfile.Get(top, "max_turns")),
		Timeout: p.duration(yamlfile.Get(top, "timeout")), Deadline: p.duration(yamlfile.Get(top, "deadline")),
	}
	if b := yamlfile.Get(top, "budget"); b != nil {
		s.Budget = []string{b.Value}
		if yamlfile.IsList(b) {
			s.Budget = nil
			for _, n := range yamlfile.Items(b) {
				s.Budget = append(s.Budget, n.Value)
			}
		}
		_, err := budget.ParseLimits(s.Budget)
		p.Wrong(b, err)
	}
	return s
}

func value(n *yamlfile.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

// count is a number that the schema has let through.
func count(n *yamlfile.Node) int {
	v, _ := strconv.Atoi(value(n))
	return v
}

func (p *parser) duration(n *yamlfile.Node) time.Duration {
	if n == nil {
		return 0
	}
	d, err := time.ParseDuration(n.Value)
	if err != nil || d <= 0 {
		p.At(n, "%q is no duration: write it as 90s, 30m or 2h", n.Value)
	}
	return d
}
