package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type modelsTestCommand struct {
	JSON  bool   `name:"json" help:"Print JSON."`
	Model string `arg:"" optional:"" help:"Name of the model. Default: that of models.yaml."`
}

// Help is what `bailey models test --help` says beyond the flags.
func (modelsTestCommand) Help() string {
	return `Makes one real call of at most 16 tokens of output, with the provider's key, from this machine and not from a sandbox. It counts for the budgets of the day, and stands in bailey usage under the task "models-test". With --json: an object with id, served (the model that the provider says answered), input_tokens, output_tokens, cost_usd and estimated, which is true where the provider reported no usage: then they are what was booked.

Exit codes: 0 when it answered; 125 when it did not, with the provider's reason.`
}

// testRow is the published form of a test.
type testRow struct {
	ID     string `json:"id"`
	Served string `json:"served"`
	Input  int64  `json:"input_tokens"`
	Output int64  `json:"output_tokens"`
	Cost   any    `json:"cost_usd"`
	Guess  bool   `json:"estimated"`
}

// Run asks a model.
func (c *modelsTestCommand) Run(a *app) error {
	cfg, err := a.models()
	if err == nil && cfg == nil {
		err = a.noModels()
	}
	if err != nil {
		return err
	}
	m, err := cfg.Find(c.Model)
	if err != nil {
		return err
	}
	key, forget, err := a.modelKey(m)
	if err != nil {
		return err
	}
	defer forget()
	answer, spent, err := a.testModel(cfg, m, key)
	if err != nil {
		return err
	}
	row := testRow{ID: m.ID, Served: answer.Served, Input: answer.Usage.Input, Output: answer.Usage.Output, Guess: !answer.Known}
	cost := "-"
	if m.Price != nil {
		row.Cost, cost = usd(spent), spent.String()
	}
	if c.JSON {
		return printJSON(a.stdout, row)
	}
	if answer.Served != "" && answer.Served != m.Name {
		_, _ = fmt.Fprintf(a.stderr, "note: the model that was asked for is %s\n", terminal.Sanitize(m.Name))
	}
	if row.Guess {
		_, _ = fmt.Fprintln(a.stderr, "note: the provider reported no usage; what is printed is an estimate, which was booked")
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "model\t%s\nserved\t%s\ninput\t%s\noutput\t%s\ncost\t%s\n", m.ID, terminal.Sanitize(answer.Served), spell.Count(int(row.Input), "token"), spell.Count(int(row.Output), "token"), cost)
	return w.Flush()
}

// modelKey opens the key of a model's provider; forget is called when it is not
// needed any more.
func (a *app) modelKey(m *models.Model) (key seal.Secret, forget func(), err error) {
	if m.Provider.Secret == "" {
		return key, func() {}, nil
	}
	v, err := a.openVault()
	if err != nil {
		return key, nil, err
	}
	d, value, err := v.Get(m.Provider.Secret)
	switch {
	case bailey.KindOf(err) == bailey.NotFound:
		err = m.Provider.Unkept()
	case err == nil && !d.Gateway:
		value.Wipe()
		err = m.Provider.KeptForHosts()
	}
	if err != nil {
		v.Close()
		return key, nil, err
	}
	return value, func() { value.Wipe(); v.Close() }, nil
}

// testTask is what the calls of a test stand under.
const testTask = "models-test"

// testModel makes the call, and books it. Where the provider says of its answer
// no usage, the answer has what was booked.
func (a *app) testModel(cfg *models.Config, m *models.Model, key seal.Secret) (answer models.Answer, cost pricing.Money, err error) {
	limits, err := cfg.Limits(m, budget.Limit{})
	if err != nil {
		return answer, 0, err
	}
	limits = budget.Limits{ModelDay: limits.ModelDay, Day: limits.Day}
	via, err := a.via()
	if err != nil {
		return answer, 0, err
	}
	ledger, err := a.ledger(testTask)
	if err != nil {
		return answer, 0, err
	}
	grant, err := ledger.Reserve(a.ctx, budget.Ask{Model: m.ID, Limits: limits, Input: models.TestInput, Output: models.TestOutput, Price: m.Price})
	if err != nil {
		return answer, 0, errors.Join(err, ledger.Close())
	}
	answer, paid, err := m.Test(a.ctx, key, via, a.now)
	var booked error
	switch {
	case answer.Known:
		if m.Price != nil {
			cost = pricing.Cost(answer.Usage, *m.Price)
		}
		booked = ledger.Settle(grant, answer.Usage, cost)
	case paid:
		answer.Usage = pricing.Usage{Input: models.TestInput, Output: models.TestOutput}
		cost, booked = ledger.Abandon(grant, pricing.Usage{})
	default:
		booked = ledger.Cancel(grant)
	}
	if closing := ledger.Close(); err == nil { // what the provider said is said first
		err = errors.Join(booked, closing)
	}
	return answer, cost, err
}

// ledger opens the record of usage of today for a task.
func (a *app) ledger(task string) (*budget.Ledger, error) {
	folder := budget.In(a.host.Dirs.Data)
	page, err := folder.Newest(a.ctx, a.now())
	if err != nil {
		return nil, err
	}
	return budget.Open(a.ctx, budget.Config{
		Task: task, Page: page, Now: a.now,
		Next: func(ctx context.Context, after budget.Day) (budget.Page, error) {
			return folder.Next(ctx, after, a.now())
		},
	})
}
