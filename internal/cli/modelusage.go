package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/pricing"
	"github.com/bailey-dev/bailey/internal/spell"
	"github.com/bailey-dev/bailey/internal/terminal"
)

type usageCommand struct {
	By    string      `enum:"model,task,day" default:"model" placeholder:"WHAT" help:"Add up by model, task (or run), or day (UTC)."`
	Since config.Span `placeholder:"TIME" help:"Only calls that began so long ago until now, such as 24h or 7d. Default: all that is kept."`
	JSON  bool        `name:"json" help:"Print JSON."`
}

// Help is what `bailey usage --help` says beyond the flags.
func (usageCommand) Help() string {
	return `Adds up the calls of models that went through bailey. INPUT is the tokens that were neither read from the provider's cache nor written to it; OUTPUT holds those of thinking. COST is of the calls whose model had a price. Of an answer that broke off or said no usage what stands there is an estimate, and REQUESTS says how many those are. OPEN is what is reserved by calls that are under way; where a process died with one it stays there, and counts as spent on its day.

With --json: an array of objects with key, requests, input_tokens, output_tokens, cache_read, cache_write and cost_usd, which is null where no call had a price; and estimated_requests (of requests), open_requests and open_tokens where there are some. By task, in the order in which they began, there are started and models too, and the key is the task's id, as bailey task ls has it. Of a run that is no task it is the id of its sandbox; the text has the end of that alone, which the run's name ends in.

Examples:
  bailey usage --since 7d --by day
  bailey usage --json`
}

// usageRow is the published form of a row.
type usageRow struct {
	Key          string   `json:"key"`
	Started      string   `json:"started,omitempty"`
	Models       []string `json:"models,omitempty"`
	Requests     int64    `json:"requests"`
	Estimated    int64    `json:"estimated_requests,omitempty"`
	Input        int64    `json:"input_tokens"`
	Output       int64    `json:"output_tokens"`
	CacheRead    int64    `json:"cache_read"`
	CacheWrite   int64    `json:"cache_write"`
	Cost         any      `json:"cost_usd"`
	OpenRequests int64    `json:"open_requests,omitempty"`
	OpenTokens   int64    `json:"open_tokens,omitempty"`
}

// usd is an amount as a number of dollars, exactly.
func usd(m pricing.Money) json.Number { return json.Number(m.Decimal()) }

// Run prints what was used.
func (c *usageCommand) Run(a *app) error {
	var since time.Time
	if d := time.Duration(c.Since); d > 0 {
		since = a.now().Add(-d)
	}
	by := map[string]budget.By{"model": budget.ByModel, "task": budget.ByTask, "day": budget.ByDay}[c.By]
	report, err := budget.In(a.host.Dirs.Data).Report(by, since)
	if err != nil {
		return err
	}
	if report.Odd > 0 {
		_, _ = fmt.Fprintf(a.stderr, "note: of the record, %s damaged, and no call is read there\n", damaged(report.Odd))
	}
	if c.JSON {
		rows := make([]usageRow, 0, len(report.Rows))
		for _, r := range report.Rows {
			row := usageRow{Key: r.Key, Requests: r.Requests, Estimated: r.Estimated, Input: r.Input, Output: r.Output, CacheRead: r.CacheRead, CacheWrite: r.CacheWrite, OpenRequests: r.Open, OpenTokens: r.OpenTokens}
			if by == budget.ByTask {
				row.Started, row.Models = r.Started.UTC().Format(time.RFC3339), r.Models
			}
			if r.Priced {
				row.Cost = usd(r.Cost)
			}
			rows = append(rows, row)
		}
		return printJSON(a.stdout, rows)
	}
	if len(report.Rows) == 0 && c.Since > 0 {
		_, err := fmt.Fprintf(a.stdout, "No call of a model in the last %s is on record; without --since there may be.\n", briefTime(time.Duration(c.Since)))
		return err
	}
	if len(report.Rows) == 0 {
		_, err := fmt.Fprintln(a.stdout, "No calls of models are on record. bailey models list shows the models; bailey run --model NAME uses one.")
		return err
	}
	return c.table(a, report)
}

func (c *usageCommand) table(a *app, report budget.Report) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	title := map[string]string{"model": "MODEL", "task": "STARTED\tTASK\tMODELS", "day": "DAY"}[c.By]
	_, _ = fmt.Fprintln(w, title+"\tREQUESTS\tINPUT\tOUTPUT\tCACHE READ\tCACHE WRITE\tCOST\tOPEN")
	row := func(key string, r budget.Row) {
		requests, cost, open := strconv.FormatInt(r.Requests, 10), "-", "-"
		if r.Estimated > 0 {
			requests += fmt.Sprintf(" (%d estimated)", r.Estimated)
		}
		if r.Priced {
			cost = r.Cost.String()
		}
		if r.Open > 0 {
			open = fmt.Sprintf("%d (%s)", r.Open, spell.Count(int(r.OpenTokens), "token"))
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", key, requests, r.Input, r.Output, r.CacheRead, r.CacheWrite, cost, open)
	}
	for _, r := range report.Rows {
		key := terminal.Sanitize(r.Key)
		if c.By == "task" {
			key = r.Started.Local().Format(time.DateTime) + "\t" + terminal.Sanitize(runOf(r.Key)) + "\t" + terminal.Sanitize(strings.Join(r.Models, ", "))
		}
		row(key, r)
	}
	if len(report.Rows) > 1 {
		key := "total of " + strconv.Itoa(len(report.Rows))
		if c.By == "task" {
			key += "\t\t"
		}
		row(key, report.Total)
	}
	return w.Flush()
}

func damaged(lines int) string {
	if lines == 1 {
		return "1 line is"
	}
	return strconv.Itoa(lines) + " lines are"
}

// runOf is a task as a person knows it: by its id, or, of a run, by the last
// eight digits of its sandbox's id, in which its name ends.
func runOf(task string) string {
	const shown = 8
	if id, run := strings.CutPrefix(task, "sbx_"); run && len(id) > shown {
		return "…" + id[len(id)-shown:]
	}
	return task
}
