// Command leakrules writes internal/leak/gitleaks: the rules of a release of
// gitleaks as JSON, without what is for people, and its licence. The release is
// pinned here, and its file by its sum; to take another, change both.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
)

const (
	release = "v8.30.1"
	sum     = "e163e53b9e7e8a8511e77271e2b323ed057759542a6d988258afe3a1fa329caf"
	folder  = "../internal/leak/gitleaks"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "leakrules:", err)
		os.Exit(1)
	}
}

// allowlist and config are gitleaks' own form, as far as it is used.
type allowlist struct {
	Condition   string
	Paths       []string
	RegexTarget string
	Regexes     []string
	StopWords   []string
}

type config struct {
	Allowlist  *allowlist
	Allowlists []allowlist
	Rules      []struct {
		ID          string
		Regex       string
		Path        string
		SecretGroup int
		Entropy     float64
		Keywords    []string
		Allowlists  []allowlist
		Required    []struct{ ID string }
	}
}

// allowance, rule and rules are what internal/leak reads.
type allowance struct {
	All       bool     `json:"all,omitempty"`
	Paths     []string `json:"paths,omitempty"`
	Regexes   []string `json:"regexes,omitempty"`
	Target    string   `json:"target,omitempty"`
	Stopwords []string `json:"stopwords,omitempty"`
}

type rule struct {
	ID       string      `json:"id"`
	Regex    string      `json:"regex,omitempty"`
	Path     string      `json:"path,omitempty"`
	Group    int         `json:"group,omitempty"`
	Entropy  float64     `json:"entropy,omitempty"`
	Keywords []string    `json:"keywords,omitempty"`
	Allow    []allowance `json:"allow,omitempty"`
}

type rules struct {
	From  string      `json:"from"`
	Allow []allowance `json:"allow"`
	Rules []rule      `json:"rules"`
}

func run() error {
	dir, err := download()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "config", "gitleaks.toml"))
	if err != nil {
		return err
	}
	if got := sha256.Sum256(text); hex.EncodeToString(got[:]) != sum {
		return fmt.Errorf("the rules of %s have the sum %x, not %s", release, got, sum)
	}
	out, err := convert(text)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "LICENSE"), licence, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "rules.json"), out, 0o644)
}

// download asks the go command for the release, which checks it, and returns
// the folder it lies in.
func download() (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", "github.com/zricethezav/gitleaks/v8@"+release)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download gitleaks %s: %w", release, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil || module.Dir == "" {
		return "", fmt.Errorf("download gitleaks %s: %s", release, out)
	}
	return module.Dir, nil
}

func convert(text []byte) ([]byte, error) {
	var c config
	if _, err := toml.Decode(string(text), &c); err != nil {
		return nil, err
	}
	if c.Allowlist != nil {
		c.Allowlists = append(c.Allowlists, *c.Allowlist)
	}
	out := rules{From: "gitleaks " + release, Allow: allowances(c.Allowlists)}
	for _, r := range c.Rules {
		if len(r.Required) > 0 {
			return nil, fmt.Errorf("%s: rules of several parts are not known to internal/leak", r.ID)
		}
		out.Rules = append(out.Rules, rule{r.ID, r.Regex, r.Path, r.SecretGroup, r.Entropy, lowered(r.Keywords), allowances(r.Allowlists)})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(out)
	return b.Bytes(), err
}

func allowances(list []allowlist) []allowance {
	var out []allowance
	for _, a := range list {
		out = append(out, allowance{strings.EqualFold(a.Condition, "AND"), a.Paths, a.Regexes, a.RegexTarget, lowered(a.StopWords)})
	}
	return out
}

func lowered(list []string) []string {
	for i, s := range list {
		list[i] = strings.ToLower(s)
	}
	return list
}
