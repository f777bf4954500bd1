// Package keybearer is the role that carries a provider's key from the vault to
// the model gateway, and ends. So the key is never in the memory of the process
// that faces the terminal and what agents print, and the vault's key never in
// that of the process that parses what sandboxes send.
//
// It reads its task on standard input, writes one line to standard output,
// which is the gateway's pipe, and says what is wrong on standard error as one
// JSON document.
package keybearer

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/config"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/modelgate"
	"github.com/bailey-dev/bailey/internal/models"
	"github.com/bailey-dev/bailey/internal/vault"
)

// Problem is what standard error gets.
type Problem struct {
	Kind    bailey.Kind `json:"kind"`
	Message string      `json:"message"`
	Hint    string      `json:"hint"`
}

// Main is the process; it returns the exit code.
func Main() int {
	err := errors.Join(harden.NoCore(), harden.Undumpable())
	if err == nil {
		err = carry(os.Stdin, os.Stdout)
	}
	if err == nil {
		return 0
	}
	p := Problem{Kind: bailey.KindOf(err), Message: err.Error()}
	if e, ok := errors.AsType[*bailey.Error](err); ok {
		p.Message, p.Hint = e.Message, e.Hint
	}
	_ = json.NewEncoder(os.Stderr).Encode(p)
	return bailey.ExitBailey
}

func carry(from io.Reader, to io.Writer) error {
	var task modelgate.KeyTask
	if err := inherit.Document(from, modelgate.MaxMessage, &task); err != nil {
		return err
	}
	place := vault.Place{ConfigDir: task.Config, DataDir: task.Data, StateDir: task.State, Env: config.Environment().Get, Ask: vault.AskTerminal}
	if task.Changed {
		place.Ask = nil
	}
	v, err := vault.Open(place)
	if err != nil {
		return err
	}
	d, value, err := v.Get(task.Secret)
	gone, provider := bailey.KindOf(err) == bailey.NotFound, models.Provider{Name: task.Provider, Secret: task.Secret}
	switch {
	case gone && task.Changed:
		return json.NewEncoder(to).Encode(modelgate.Key{})
	case gone:
		return provider.Unkept()
	case err != nil:
		return err
	case !d.Gateway:
		return provider.KeptForHosts()
	}
	return json.NewEncoder(to).Encode(modelgate.Key{Value: value.Reveal()})
}
