// Package catalog is the role that reads the user's files for the service of
// tasks, each time anew: a process that reads models.yaml and looks for installed
// agents, or reads what config.yaml says of tasks, says it as JSON, and ends. It
// opens no vault, holds no key and asks no provider anything.
//
// It is apart from the launcher, since what reads files that people write, and
// judges agents, brings half of a model gateway along.
package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/task"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// maxSettings bounds the settings, in bytes.
const maxSettings = 64 << 10

// Main is the process; it returns the exit code: 0 when a Catalog was said.
func Main() int {
	err := errors.Join(inherit.Check(launcher.FDSettings, launcher.FDSettings), harden.Process(), harden.KeepDescriptors())
	if err == nil {
		err = answer(os.NewFile(launcher.FDSettings, "settings"), os.Stdout, config.Environment())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bailey catalog: %v\n", err)
		return bailey.ExitBailey
	}
	return 0
}

// answer says what the settings on a descriptor lead to.
func answer(from io.Reader, to io.Writer, env config.Lookup) error {
	var s launcher.CatalogSettings
	if err := inherit.Document(from, maxSettings, &s); err != nil {
		return err
	}
	c := launcher.Catalog{Models: []task.Model{}}
	read, check := tasksOf, settings.CheckCommand
	if s.Models {
		read, check = modelsOf, models.CheckCommand
	}
	err := read(s, env, &c)
	if e, ok := errors.AsType[*yamlfile.InvalidError](err); ok {
		err = e.Short(check)
	}
	if err != nil {
		c.Error = launcher.FaultOf(err)
	}
	if err := json.NewEncoder(to).Encode(c); err != nil {
		return fmt.Errorf("say the catalog: %w", err)
	}
	return nil
}

// modelsOf lists the models.
func modelsOf(s launcher.CatalogSettings, env config.Lookup, c *launcher.Catalog) error {
	found, err := models.Load(s.Config, "")
	if err != nil || found == nil {
		return err
	}
	host := harness.Host{Arch: runtime.GOARCH, Home: s.Home, Path: filepath.SplitList(env.Get("PATH")), Files: harness.OS{}}
	for i := range found.Models {
		c.Models = append(c.Models, modelOf(found, &found.Models[i], host))
	}
	return nil
}

// tasksOf says what tasks may do.
func tasksOf(s launcher.CatalogSettings, _ config.Lookup, c *launcher.Catalog) error {
	p := settings.Place{ConfigDir: s.Config}
	t, err := settings.LoadTasks(p)
	if err != nil {
		return err
	}
	c.Tasks = launcher.Tasks{Roots: t.Folders(s.Home), From: t.Where(p.UserFile()), MaxParallel: t.Most()}
	return nil
}

// modelOf is a model as tasks see it.
func modelOf(c *models.Config, m *models.Model, host harness.Host) task.Model {
	out := task.Model{
		ID: m.ID, Provider: m.Provider.Name, Dialect: string(m.Dialect), Description: m.Description, Default: m.ID == c.Default,
		MaxAgents: m.MaxAgents, Budget: []string{}, Harnesses: []string{},
	}
	for _, b := range []struct {
		name  string
		limit budget.Limit
	}{{"task", m.Budget.Task}, {"day", m.Budget.Day}} {
		if !b.limit.None() {
			out.Budget = append(out.Budget, b.name+" "+b.limit.String())
		}
	}
	if m.Price != nil {
		out.Price = &task.Price{
			Input: perMillion(m.Price.Input), Output: perMillion(m.Price.Output),
			CacheRead: perMillion(m.Price.CacheRead), CacheWrite: perMillion(m.Price.CacheWrite),
		}
	}
	// An agent is looked for as it would be for a run with this model: one that
	// does not speak its dialect is none.
	host.Model = &harness.Model{ID: m.ID, Dialect: m.Dialect, BaseURL: "http://127.0.0.1:1", TokenVar: "TOKEN", Context: m.Context, MaxOutput: m.MaxOutput}
	for _, name := range harness.Executors() {
		switch _, err := harness.Find(name, host); {
		case err == nil:
			out.Harnesses = append(out.Harnesses, name)
		case bailey.KindOf(err) == bailey.NotFound:
			out.Installable = append(out.Installable, task.Installable{Harness: name, Install: harness.Install(name)})
		}
	}
	return out
}

// perMillion is a price a token as one a million, in USD.
func perMillion(m pricing.Money) float64 {
	const million = 1_000_000
	f, err := strconv.ParseFloat(m.Times(million).Decimal(), 64)
	if err != nil { // Decimal is always a number
		return 0
	}
	return f
}
