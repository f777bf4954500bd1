package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/terminal"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// modelsCommand is the group of commands about models.
type modelsCommand struct {
	List    modelsListCommand    `cmd:"" aliases:"ls" help:"List the models that sandboxes may use."`
	Check   modelsCheckCommand   `cmd:"" help:"Say what is wrong with models.yaml, its keys and its providers."`
	Test    modelsTestCommand    `cmd:"" help:"Ask a model for one word, and print who answered and what it used."`
	Example modelsExampleCommand `cmd:"" help:"Print a models.yaml to begin with, or write it."`
}

// modelsFile is where the file of models is, if there is one.
func (a *app) modelsFile() string { return filepath.Join(a.host.Dirs.Config, models.FileName) }

// models reads the file of models; nil: there is none.
func (a *app) models() (*models.Config, error) {
	c, err := models.Load(a.host.Dirs.Config, "")
	if e, ok := errors.AsType[*yamlfile.InvalidError](err); ok {
		return nil, e.Short(models.CheckCommand)
	}
	return c, err
}

// via is how the providers are reached.
func (a *app) via() (models.Via, error) {
	proxy, extra, err := run.Upstream(a.host)
	if err != nil {
		return models.Via{}, err
	}
	return models.NewVia(proxy, extra)
}

// modelNames lists the models, for completion.
func (a *app) modelNames() (out []candidate) {
	c, _ := models.Load(a.host.Dirs.Config, "") // a completion has nobody to tell
	if c == nil {
		return nil
	}
	for i := range c.Models {
		m := &c.Models[i]
		help := m.Description
		if help == "" {
			help = m.Name + " of " + m.Provider.Name
		}
		out = append(out, candidate{m.ID, help})
	}
	return out
}

// noModels is the error of a command that needs the file.
func (a *app) noModels() error {
	return bailey.NewError(bailey.NotFound, "there are no models: "+a.modelsFile()+" is not there", models.WriteHint)
}

type modelsListCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what `bailey models list --help` says beyond the flags.
func (modelsListCommand) Help() string {
	return `Lists what models.yaml says, in its order, without asking a model anything. A provider is reachable when it takes a connection within 0.3 seconds. Busy is how many runs use the model now, of so many that may. Behind a budget of a day stands what was used of it today, and what calls hold that are under way. Prices are in USD a million tokens of input and of output: those of models.yaml, else those of the list in bailey, which has a date (docs/models.md).

With --json: an array of objects with id, provider, dialect, reachable, busy, max_agents, price, budget and used. max_agents, price and the parts of budget are null where there is none. used is what counts today (UTC) for the budget of the day, in tokens and in usd, and null where the record cannot be read; held is what calls under way hold besides, and absent where there are none.`
}

// reachWait is how long a list waits for a connection.
const reachWait = 300 * time.Millisecond

// modelRow is the published form of a model.
type modelRow struct {
	ID        string    `json:"id"`
	Provider  string    `json:"provider"`
	Dialect   string    `json:"dialect"`
	Reachable bool      `json:"reachable"`
	Busy      int       `json:"busy"`
	MaxAgents *int      `json:"max_agents"`
	Price     *priceRow `json:"price"`
	Budget    budgetRow `json:"budget"`
	Used      *usedRow  `json:"used"`
	Held      *usedRow  `json:"held,omitempty"`
}

// usedRow is what was used today.
type usedRow struct {
	Tokens int64       `json:"tokens"`
	USD    json.Number `json:"usd"`
}

// priceRow is prices in USD a million tokens.
type priceRow struct {
	Above        int64       `json:"above,omitempty"`
	Input        json.Number `json:"input"`
	Output       json.Number `json:"output"`
	CacheRead    json.Number `json:"cache_read"`
	CacheWrite   json.Number `json:"cache_write"`
	CacheWrite1h json.Number `json:"cache_write_1h"`
	Tiers        []priceRow  `json:"tiers,omitempty"`
}

type budgetRow struct {
	Task *limitRow `json:"task"`
	Day  *limitRow `json:"day"`
}

type limitRow struct {
	Tokens *int64 `json:"tokens"`
	USD    any    `json:"usd"`
}

// Run lists the models.
func (c *modelsListCommand) Run(a *app) error {
	cfg, err := a.models()
	if err != nil {
		return err
	}
	if cfg == nil {
		if c.JSON {
			return printJSON(a.stdout, []modelRow{})
		}
		_, err := fmt.Fprintf(a.stdout, "There are no models yet. Write this, with your own, into %s (bailey models example --write does):\n\n%s", terminal.Sanitize(a.modelsFile()), models.Example)
		return err
	}
	used, unread := budget.In(a.host.Dirs.Data).Used(a.now()) // a list is no less true without it
	rows, err := modelRows(a, cfg)
	if err != nil {
		return err
	}
	if unread == nil {
		tellUse(rows, used)
	}
	if c.JSON {
		return printJSON(a.stdout, rows)
	}
	text := func(b models.Budget, u, held budget.Use) string {
		if unread != nil {
			return budgetText(b, nil, nil)
		}
		return budgetText(b, &u, &held)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "MODEL\tPROVIDER\tDIALECT\tREACHABLE\tBUSY\tPRICE\tBUDGET")
	for i, r := range rows {
		m := &cfg.Models[i]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID+mark(r.ID == cfg.Default), r.Provider, r.Dialect, yesNo(r.Reachable), busyText(r.Busy, m.MaxAgents), priceText(m.Price), text(m.Budget, used.Model(m.ID), used.Held(m.ID)))
	}
	if !cfg.Budget.None() {
		_, _ = fmt.Fprintf(w, "all\t\t\t\t\t\t%s\n", text(cfg.Budget, used.All(), used.Held("")))
	}
	return w.Flush()
}

// tellUse adds what was used today.
func tellUse(rows []modelRow, today budget.Today) {
	for i := range rows {
		u := today.Model(rows[i].ID)
		rows[i].Used = &usedRow{u.Tokens, usd(u.Money)}
		if h := today.Held(rows[i].ID); h != (budget.Use{}) {
			rows[i].Held = &usedRow{h.Tokens, usd(h.Money)}
		}
	}
}

func modelRows(a *app, cfg *models.Config) ([]modelRow, error) {
	via, err := a.via()
	if err != nil {
		return nil, err
	}
	reach := cfg.Reach(a.ctx, reachWait, via)
	slots := budget.SlotsIn(a.host.Dirs.Runtime)
	rows := make([]modelRow, 0, len(cfg.Models))
	for i := range cfg.Models {
		m := &cfg.Models[i]
		busy, err := slots.Busy(a.ctx, m.ID)
		if err != nil {
			return nil, err
		}
		r := modelRow{
			ID: m.ID, Provider: m.Provider.Name, Dialect: string(m.Dialect), Reachable: reach[m.Provider.Name] == nil, Busy: busy,
			Budget: budgetRow{Task: limitOf(m.Budget.Task), Day: limitOf(m.Budget.Day)},
		}
		if m.MaxAgents != 0 {
			r.MaxAgents = &m.MaxAgents
		}
		if m.Price != nil {
			p := ratesOf(m.Price.Rates)
			for _, t := range m.Price.Tiers {
				tier := ratesOf(t.Rates)
				tier.Above = t.Above
				p.Tiers = append(p.Tiers, tier)
			}
			r.Price = &p
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// perMillion is a price a token as one a million.
func perMillion(m pricing.Money) json.Number {
	const million = 1_000_000
	return json.Number(m.Times(million).Decimal())
}

func ratesOf(r pricing.Rates) priceRow {
	return priceRow{
		Input: perMillion(r.Input), Output: perMillion(r.Output),
		CacheRead: perMillion(r.CacheRead), CacheWrite: perMillion(r.CacheWrite), CacheWrite1h: perMillion(r.CacheWrite1h),
	}
}

func limitOf(l budget.Limit) *limitRow {
	if l.None() {
		return nil
	}
	out := &limitRow{}
	if l.Tokens != 0 {
		out.Tokens = &l.Tokens
	}
	if l.Money != 0 {
		out.USD = usd(l.Money)
	}
	return out
}

func mark(meant bool) string {
	if meant {
		return " *"
	}
	return ""
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func busyText(busy, most int) string {
	if most == 0 {
		return fmt.Sprint(busy)
	}
	return fmt.Sprintf("%d of %d", busy, most)
}

func priceText(p *pricing.Price) string {
	if p == nil {
		return "-"
	}
	more := ""
	if len(p.Tiers) > 0 {
		more = "+"
	}
	return perMillion(p.Input).String() + "/" + perMillion(p.Output).String() + more
}

// budgetText has what was used today behind a budget of a day, if it is known.
func budgetText(b models.Budget, used, held *budget.Use) string {
	var parts []string
	if !b.Task.None() {
		parts = append(parts, "task "+b.Task.String())
	}
	if !b.Day.None() {
		day := "day " + b.Day.String()
		if used != nil {
			day += " (" + used.Of(b.Day) + " used"
			if held != nil && *held != (budget.Use{}) {
				day += "; " + held.Of(b.Day) + " held"
			}
			day += ")"
		}
		parts = append(parts, day)
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, "; ")
}

type modelsCheckCommand struct {
	File string `arg:"" optional:"" help:"The file. Default: your own."`
}

// Help is what `bailey models check --help` says beyond the flags.
func (modelsCheckCommand) Help() string {
	return `Prints each fault as FILE:LINE:COLUMN: message, with what to write instead. When the file is right: whether each provider's key is kept for the gateway (the vault is opened, no value is looked at), whether each provider takes a connection, and whether it speaks TLS where its address says so, with a certificate that holds, and none where it does not. No model is asked, and no key is sent.

Exit codes: 0 when all of it holds; 1 when something does not; 125 when the file or the vault cannot be read.`
}

// Run checks the file and what it names.
func (c *modelsCheckCommand) Run(a *app) error {
	cfg, err := c.read(a)
	if e, ok := errors.AsType[*yamlfile.InvalidError](err); ok {
		for _, p := range e.Problems {
			_, _ = fmt.Fprintln(a.stderr, terminal.Sanitize(p.String()))
		}
		return errUnfit
	}
	if err != nil {
		return err
	}
	faults, err := a.keyFaults(cfg)
	if err != nil {
		return err
	}
	const wait = 3 * time.Second
	via, err := a.via()
	if err != nil {
		return err
	}
	reach := cfg.Greet(a.ctx, wait, via)
	for _, p := range cfg.Providers() {
		err := reach[p.Name]
		if _, network := errors.AsType[*net.OpError](err); err != nil && !network {
			faults = append(faults, fmt.Sprintf("%s: provider %s, at %s: %s", p.From, p.Name, p.Base, err))
		} else if err != nil {
			faults = append(faults, fmt.Sprintf("%s: provider %s cannot be reached: %s", p.From, p.Name, err))
		}
	}
	for _, f := range faults {
		_, _ = fmt.Fprintln(a.stderr, terminal.Sanitize(f))
	}
	if len(faults) > 0 {
		return errUnfit
	}
	_, err = fmt.Fprintf(a.stdout, "%s: ok\n", terminal.Sanitize(cfg.Path))
	return err
}

func (c *modelsCheckCommand) read(a *app) (*models.Config, error) {
	if c.File != "" {
		data, err := yamlfile.Read(c.File, "file of models")
		if err != nil {
			return nil, err
		}
		return models.Parse(c.File, data)
	}
	cfg, err := models.Load(a.host.Dirs.Config, "")
	if err == nil && cfg == nil {
		err = a.noModels()
	}
	return cfg, err
}

// keyFaults opens the vault only where a provider has a key.
func (a *app) keyFaults(cfg *models.Config) ([]string, error) {
	for _, p := range cfg.Providers() {
		if p.Secret == "" {
			continue
		}
		v, err := a.openVault()
		if err != nil {
			return nil, err
		}
		defer v.Close()
		return cfg.Check(v.Find), nil
	}
	return cfg.Check(nil), nil
}
