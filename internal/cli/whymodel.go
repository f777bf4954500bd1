package cli

import (
	"fmt"
	"net"
	"strings"

	"github.com/bailey-dev/bailey/internal/models"
)

// whyModel is the answer about the name of a model, which is no host.
type whyModel struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Host     string `json:"host"` // of the provider, that bailey connects to
	Port     string `json:"port"`
	File     string `json:"file"`  // that names the model
	Reach    string `json:"reach"` // the flag that gives a sandbox the model

	asked string // the name that was asked for
	both  bool   // a host can have it too
}

// modelNamed returns the model that is meant by what was asked about, or nil: by
// its name, or that of its provider, with a port or without.
func (a *app) modelNamed(text string) *whyModel {
	c, err := models.Load(a.host.Dirs.Config, "")
	if err != nil || c == nil {
		return nil // bailey models check says what is wrong with it
	}
	names := []string{text}
	if name, _, err := net.SplitHostPort(text); err == nil {
		names = append(names, name)
	}
	for _, of := range []func(*models.Model) string{
		func(m *models.Model) string { return m.ID },
		func(m *models.Model) string { return m.Name },
		func(m *models.Model) string { return m.Provider.Name },
	} {
		for i := range c.Models {
			for _, name := range names {
				if m := &c.Models[i]; of(m) == name {
					return whyModelOf(c, m, name)
				}
			}
		}
	}
	return nil
}

func whyModelOf(c *models.Config, m *models.Model, asked string) *whyModel {
	host, port := m.Provider.HostPort()
	return &whyModel{Name: m.ID, Provider: m.Provider.Name, Host: host, Port: port, File: c.Path, Reach: "--model " + m.ID, asked: asked}
}

// lines is the answer for a person.
func (m *whyModel) lines() []string {
	if m == nil {
		return nil
	}
	what := fmt.Sprintf("%s is a model of %s, and no host", m.asked, m.File)
	switch m.asked {
	case m.Name:
	case m.Provider:
		what = fmt.Sprintf("%s is the provider of the model %s in %s, and no host", m.asked, m.Name, m.File)
	default:
		what = fmt.Sprintf("%s is the provider's name for the model %s of %s, and no host", m.asked, m.Name, m.File)
	}
	if m.both {
		what = strings.TrimSuffix(what, ", and no host") + "; what follows below is about a host of that name"
	}
	to := net.JoinHostPort(m.Host, m.Port)
	return []string{
		what,
		"to give it to a sandbox:  bailey run " + m.Reach + " …, or bailey task run " + m.Reach + " …: through bailey's gateway, and no rule of the network is needed or asked",
		"where it is:              bailey itself asks its provider " + m.Provider + " at " + to + "; bailey net why " + to + " says whether a sandbox may go there by itself",
	}
}
