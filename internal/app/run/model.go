package run

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/budget"
	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/harness"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/wire"
)

// modelPlan is the model of a run.
type modelPlan struct {
	*models.Model

	config *models.Config
	limits budget.Limits
	token  string // what the sandbox has to say; it leaves this process for the sandbox alone
	record string // the folder for content, or empty
	used   string // what of the budgets of a day is used, for the header
}

// planModel finds the model that a run asks for, or returns nil.
func planModel(h Host, r *Request, workspace string, given []string) (*modelPlan, error) {
	switch len(r.Models) {
	case 0:
		return nil, modelFlags(r)
	case 1:
	default:
		return nil, bailey.NewError(bailey.Invalid, "--model is given "+strconv.Itoa(len(r.Models))+" times: "+strings.Join(r.Models, ", "), "a run has one model")
	}
	config, err := models.Load(h.Dirs.Config, workspace)
	if err != nil {
		return nil, err
	}
	m, err := config.Find(r.Models[0])
	if err != nil {
		return nil, err
	}
	run, err := budget.ParseLimits(r.Budget)
	if err != nil {
		return nil, fmt.Errorf("--budget: %w", err)
	}
	p := &modelPlan{Model: m, config: config}
	if p.limits, err = config.Limits(m, run); err != nil {
		return nil, err
	}
	for _, name := range modelVariables(m.Dialect).all() {
		if slices.ContainsFunc(given, func(pair string) bool { return strings.HasPrefix(pair, name+"=") }) {
			return nil, bailey.NewError(bailey.Invalid, name+" is passed (--env, --env-file or --secret), and --model sets it, or it is of no use beside it", "leave one of them out: with --model the sandbox needs no key")
		}
	}
	p.used = usedToday(h, m.ID, p.limits)
	if p.record, err = recordFolder(h, r.Record, workspace); err != nil {
		return nil, err
	}
	var token [32]byte
	_, _ = rand.Read(token[:]) // it never fails (crypto/rand)
	p.token = "bly-" + hex.EncodeToString(token[:])
	return p, nil
}

// usedToday says what of the day's budgets is used already. What cannot be read
// is told when a call is to be booked.
func usedToday(h Host, model string, l budget.Limits) string {
	if l.ModelDay.None() && l.Day.None() {
		return ""
	}
	today, err := budget.In(h.Dirs.Data).Used(time.Now())
	if err != nil {
		return ""
	}
	var parts []string
	if !l.ModelDay.None() {
		parts = append(parts, today.Model(model).Of(l.ModelDay))
	}
	if !l.Day.None() {
		parts = append(parts, "of all models "+today.All().Of(l.Day))
	}
	return " (used today: " + strings.Join(parts, ", ") + ")"
}

// modelFlags refuses what says something about a model that there is none of.
func modelFlags(r *Request) error {
	for flag, given := range map[string]bool{"--budget": len(r.Budget) > 0, "--record": r.Record != ""} {
		if given {
			return bailey.NewError(bailey.Invalid, flag+" is about the model of a run, and there is none", "name one: --model NAME (bailey models list)")
		}
	}
	return nil
}

// recordFolder checks where content is to be recorded: not where the sandbox
// could read or change it.
func recordFolder(h Host, dir, workspace string) (string, error) {
	if dir == "" {
		return "", nil
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(h.Dir, dir)
	}
	if sandbox.Within(filepath.Clean(dir), workspace) {
		return "", recordInWorkspace(dir)
	}
	above, err := beneath.Folder(filepath.Dir(dir), workspace) // in a workspace an agent's link would choose where
	if err == nil {
		err = beneath.MkdirPrivate(above, filepath.Base(dir))
		_ = above.Close() // O_PATH: nothing to lose
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", bailey.WrapError(bailey.Invalid, "--record", err, "name a folder that is there, or can be made")
	}
	real, err := realFolder(dir, workspace)
	if err == nil {
		err = unix.Access(real, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return "", bailey.WrapError(bailey.Invalid, "--record "+dir, err, "name a folder that is there and that you may write to")
	}
	if sandbox.Within(real, workspace) {
		return "", recordInWorkspace(dir)
	}
	return real, nil
}

func recordInWorkspace(dir string) error {
	return bailey.NewError(bailey.Invalid, "--record "+dir+" lies in the workspace, where the sandbox could change it", "name a folder outside")
}

// realFolder is where a folder lies that a person named.
func realFolder(dir, workspace string) (string, error) {
	f, err := beneath.Folder(dir, workspace)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // O_PATH: nothing to lose
	return beneath.Where(f)
}

// hash is what the gateway is told of the token.
func (p *modelPlan) hash() []byte {
	sum := sha256.Sum256([]byte(p.token))
	return sum[:]
}

// variables are those by which clients of a dialect find their server.
type variables struct {
	url, token string
	path       string   // that the URL has
	others     []string // that would lead them elsewhere, or give another key
}

func (v variables) all() []string { return append([]string{v.url, v.token}, v.others...) }

func modelVariables(d gateway.Dialect) variables {
	switch d {
	case gateway.Anthropic:
		return variables{url: "ANTHROPIC_BASE_URL", token: "ANTHROPIC_AUTH_TOKEN", others: []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"}} //nolint:gosec // names
	case gateway.Gemini:
		return variables{url: "GOOGLE_GEMINI_BASE_URL", token: "GEMINI_API_KEY", others: []string{"GOOGLE_API_KEY"}} //nolint:gosec // names
	case gateway.OpenAIResponses, gateway.OpenAIChat:
		return variables{url: "OPENAI_BASE_URL", token: "OPENAI_API_KEY", path: "/v1"} //nolint:gosec // names
	}
	return variables{}
}

// env is what the command gets.
func (p *modelPlan) env() []string {
	if p == nil {
		return nil
	}
	v := modelVariables(p.Dialect)
	return []string{v.url + "=http://" + wire.ModelAddr + v.path, v.token + "=" + p.token}
}

// harness is the model as an agent's settings need it.
func (p *modelPlan) harness() *harness.Model {
	if p == nil {
		return nil
	}
	others := map[string]gateway.Dialect{}
	for i := range p.config.Models {
		others[p.config.Models[i].ID] = p.config.Models[i].Dialect
	}
	return &harness.Model{
		ID: p.ID, Dialect: p.Dialect, BaseURL: "http://" + wire.ModelAddr, TokenVar: modelVariables(p.Dialect).token,
		Context: p.Context, MaxOutput: p.MaxOutput, Others: others,
	}
}

// apart refuses a policy that lets the sandbox reach the provider on its own:
// with a key of somebody else's it would have a model without any of the rules
// (D009).
func (p *modelPlan) apart(pol policy.Policy) error {
	if p == nil || !pol.Mode.ByList() {
		return nil
	}
	host, port := p.Provider.HostPort()
	n, _ := strconv.ParseUint(port, 10, 16)
	req := policy.Request{Protocol: policy.ProtocolTLS, Host: host, Port: uint16(n)}
	if addr, err := netip.ParseAddr(host); err == nil {
		req.Host, req.Addr = "", addr
	}
	d := policy.Decide(pol, req)
	if d.Verdict != bailey.Allow {
		return nil
	}
	return bailey.NewError(bailey.Invalid,
		fmt.Sprintf("the rule %s lets the sandbox reach the provider of model %s (%s) beside the gateway", d.Rule, p.ID, net.JoinHostPort(host, port)),
		"leave the rule out: the gateway asks the provider, and the sandbox need not")
}

// notes say in the header which model there is, and what it may use.
func (p *modelPlan) notes(mode bailey.NetMode) []string {
	if p == nil {
		return nil
	}
	line := fmt.Sprintf("model: %s (%s at %s, %s)", p.ID, p.Name, p.Provider.Name, p.Dialect)
	if b := p.limits.Line(); b != "" {
		line += "; budget: " + b + p.used
	} else {
		line += "; no budget (--budget 2M or 5usd sets one)"
	}
	out := []string{line}
	if p.record != "" {
		out = append(out, "recorded: requests and answers, with their content, in "+p.record)
	}
	if mode == bailey.NetOpen || mode == bailey.NetFull {
		out = append(out, "the network is "+mode.String()+": with a key of its own the sandbox could ask any provider, without this budget")
	}
	return out
}

// openRecord opens the file for content, or the null device.
func (p *modelPlan) openRecord(name string, id bailey.SandboxID) (*os.File, error) {
	if p.record == "" {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	end := string(id[len(id)-8:])
	path := filepath.Join(p.record, strings.TrimSuffix(name, "-"+end)+"-"+end+".jsonl")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "--record", err, "name a folder that you may write to")
	}
	return f, nil
}
