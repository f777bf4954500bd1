package phase

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// Plan is what a person wants done.
type Plan struct {
	Title    string   `json:"title,omitempty"`
	Settings Settings `json:"settings"`
	Units    []Unit   `json:"units"`
}

// Settings are what a plan may set. Nothing here lets a sandbox reach, see or
// keep more: a plan often lies where agents write.
type Settings struct {
	Agent    string        `json:"agent,omitempty"`
	Model    string        `json:"model,omitempty"`
	Validate string        `json:"validate,omitempty"`
	Tries    int           `json:"tries,omitempty"`
	MaxTurns int           `json:"max_turns,omitempty"`
	Timeout  time.Duration `json:"timeout,omitempty"`
	Deadline time.Duration `json:"deadline,omitempty"`
	Budget   []string      `json:"budget,omitempty"`
}

// Unit is one piece of the work.
type Unit struct {
	ID       string        `json:"id"`    // of its title and text
	Title    string        `json:"title"` // one line
	Section  string        `json:"section,omitempty"`
	Text     string        `json:"text,omitempty"`
	Done     bool          `json:"done,omitempty"` // the plan says so
	Validate string        `json:"validate,omitempty"`
	Tries    int           `json:"tries,omitempty"`
	Timeout  time.Duration `json:"timeout,omitempty"`
}

// Bounds of a plan.
const (
	MostUnits  = 500
	MostText   = 128 << 10 // bytes of a unit
	MostTries  = 20
	mostTitle  = 300
	mostTurns  = 1000
	unitIDSize = 6 // bytes
)

// Parse reads a plan: YAML by the name of its file, or else Markdown. Errors
// about what it says are *yamlfile.InvalidError, with positions.
func Parse(file string, data []byte) (*Plan, error) {
	p := &parser{Parser: yamlfile.NewParser(file)}
	if !utf8.Valid(data) || strings.ContainsRune(string(data), 0) {
		p.Add(1, 1, "it is no text in UTF-8")
		return nil, p.Err()
	}
	var plan *Plan
	switch filepath.Ext(file) {
	case ".yaml", ".yml":
		plan = p.yaml(data)
	default:
		plan = p.markdown(string(data))
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if len(plan.Units) == 0 {
		return nil, bailey.NewError(bailey.Invalid, file+" has no unit", "in Markdown a unit is a line such as \"- [ ] Add the parser\" with the text below it; in YAML it is an item of units")
	}
	plan.name()
	return plan, nil
}

// name gives each unit its id, which stays when others come and go.
func (p *Plan) name() {
	times := map[string]int{}
	for i := range p.Units {
		u := &p.Units[i]
		key := u.Title + "\x00" + u.Text
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, times[key]))
		times[key]++
		u.ID = hex.EncodeToString(sum[:unitIDSize])
	}
}

type parser struct{ *yamlfile.Parser }

// unit takes one, and says what is wrong with it.
func (p *parser) unit(plan *Plan, u Unit, line int) {
	switch {
	case strings.TrimSpace(u.Title) == "":
		p.Add(line, 1, "the unit has no title")
	case len(u.Title) > mostTitle:
		p.Add(line, 1, fmt.Sprintf("the title is longer than %d bytes: the text of a unit stands below it", mostTitle))
	case len(u.Text) > MostText:
		p.Add(line, 1, fmt.Sprintf("the text of the unit is longer than %d bytes", MostText))
	case len(plan.Units) == MostUnits:
		p.Add(line, 1, fmt.Sprintf("there are more than %d units", MostUnits))
	case len(plan.Units) > MostUnits:
	}
	plan.Units = append(plan.Units, u)
}
