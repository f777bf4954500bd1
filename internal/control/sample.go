package control

import (
	"time"

	"github.com/bailey-dev/bailey"
)

// Sample is what a sandbox uses at one moment. A part that is not known is nil.
type Sample struct {
	Name string           `json:"name"`
	ID   bailey.SandboxID `json:"id"`
	Time time.Time        `json:"time"`

	Memory    *Gauge        `json:"memory,omitempty"`    // bytes of the whole sandbox, its kernel and its file systems in memory too
	CPU       time.Duration `json:"cpu_ns,omitempty"`    // time of processors since the start; 0 is not known
	CPUs      float64       `json:"cpus"`                // processors that it may use
	Processes *Gauge        `json:"processes,omitempty"` // by the sandbox's own word
	Tmp       *Gauge        `json:"tmp,omitempty"`       // bytes in /tmp and the home, which are memory; likewise
	Disk      *Gauge        `json:"disk,omitempty"`      // bytes by which the workspace has grown
	Inodes    *Gauge        `json:"inodes,omitempty"`    // files and folders, likewise

	Net   *NetUse   `json:"net,omitempty"`
	Model *ModelUse `json:"model,omitempty"`
}

// Gauge is a use and its limit; 0 is none.
type Gauge struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit,omitempty"`
}

// NetUse is what passed the proxy.
type NetUse struct {
	Open    int64 `json:"open"`    // connections that are open
	Allowed int64 `json:"allowed"` // connections, questions and requests so far
	Denied  int64 `json:"denied"`
	In      int64 `json:"bytes_in"`  // to the sandbox, of connections that have ended
	Out     int64 `json:"bytes_out"` // from it, likewise
}

// ModelUse is what was asked of the model.
type ModelUse struct {
	Model    string `json:"model"`
	Requests int64  `json:"requests"`
	Input    int64  `json:"input_tokens"`
	Output   int64  `json:"output_tokens"`
}
