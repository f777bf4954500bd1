package cli

import (
	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/config"
)

// homeFlags are the flags of a run about its home, and about the host's settings
// for its agent.
type homeFlags struct {
	Home          text         `placeholder:"NAME" help:"Have this home (bailey home), which is kept; it is made if there is none. Default: an agent by name has one for each workspace, any other command has one in memory." group:"Home"`
	EphemeralHome bool         `help:"Have the home in memory: nothing of it is kept, no login and no setting." group:"Home"`
	HomeDisk      config.Bytes `placeholder:"10G" env:"BAILEY_HOME_DISK" help:"How much a home that is kept may grow in this run. Default: 10G." group:"Home"`
	Pin           []string     `placeholder:"KEY" sep:"none" help:"Hold this key of the agent's settings to what the host says, whatever an earlier run has changed; parts have dots between (statusLine.type). Repeatable; home.pin in config.yaml is for every run." group:"Home"`
	NoBridge      bool         `help:"Do not carry the host's own model and provider settings for the agent." group:"Home"`
}

func (f homeFlags) homes() run.Homes {
	return run.Homes{Name: asBytes(string(f.Home)), Ephemeral: f.EphemeralHome, Growth: int64(f.HomeDisk), Pins: f.Pin, NoBridge: f.NoBridge}
}
