package redteam

import (
	"html/template"
	"io"
	"sync"
	"time"
)

// Report is what came of all attacks. It is the published form.
type Report struct {
	Started   time.Time      `json:"started"`
	Seconds   float64        `json:"seconds"`
	Version   string         `json:"version"`
	Runtime   string         `json:"runtime"`
	Net       string         `json:"net"`
	Workspace string         `json:"workspace"`
	Counts    map[string]int `json:"counts"` // by outcome
	Attacks   []Row          `json:"attacks"`
}

// Add adds rows.
func (r *Report) Add(rows ...Row) {
	r.Attacks = append(r.Attacks, rows...)
	r.Counts = map[string]int{Held: 0, Broke: 0, Idle: 0, Lost: 0}
	for _, row := range r.Attacks {
		r.Counts[row.Outcome]++
	}
}

// OK reports whether every attack was answered for and none worked.
func (r *Report) OK() bool { return r.Counts[Broke] == 0 && r.Counts[Lost] == 0 }

// HTML writes the report as one page that needs nothing else.
func (r *Report) HTML(w io.Writer) error { return page().Execute(w, r) }

var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>bailey redteam: {{.Workspace}}</title>
<style>
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #1b1b1b; background: #fff }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .3em .6em; border-bottom: 1px solid #ddd }
td:first-child, td:nth-child(2) { white-space: nowrap }
.held { color: #0a6b2d } .broke { color: #b00020; font-weight: bold } .lost { color: #b00020 } .idle { color: #666 }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #161616 } th, td { border-color: #444 } .held { color: #6fcf8f } .broke, .lost { color: #ff7a8a } .idle { color: #aaa } }
</style>
</head>
<body>
<h1>Attacks on the sandbox of {{.Workspace}}</h1>
<p>bailey {{.Version}}, runtime {{.Runtime}}, network {{.Net}}, {{.Started.Format "2006-01-02 15:04:05 MST"}}, {{printf "%.1f" .Seconds}} s.</p>
<p>{{len .Attacks}} attacks: {{index .Counts "held"}} held, {{index .Counts "broke"}} broke, {{index .Counts "idle"}} say nothing here (they fail without a sandbox too), {{index .Counts "lost"}} without an answer.</p>
<table>
<thead><tr><th>outcome</th><th>attack</th><th>what it tries</th><th>inside</th><th>without a sandbox</th></tr></thead>
<tbody>
{{- range .Attacks}}
<tr><td class="{{.Outcome}}">{{.Outcome}}</td><td>{{.ID}}</td><td>{{.Attack}}</td><td>{{.Inside}}</td><td>{{.Without}}</td></tr>
{{- end}}
</tbody>
</table>
</body>
</html>
`))
})
