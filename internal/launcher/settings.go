package launcher

import (
	"path/filepath"
	"strings"
	"time"
)

// Settings are what the launcher itself has to know: who it is for, and what
// that person's configuration says. It is started with them as one JSON
// document on FDSettings; its standard output and error are those of whoever
// keeps it in the foreground.
type Settings struct {
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Home string `json:"home"`

	Config  string `json:"config"` // bailey's folders (config.Dirs)
	Data    string `json:"data"`
	State   string `json:"state"`
	Runtime string `json:"runtime"`

	// Env is the environment of runners and of what lists models, as
	// NAME=VALUE: where that person's vault, agents and folders are. No other
	// process of the service has any.
	Env []string `json:"env"`

	Tasks     Tasks         `json:"tasks"`                // as config.yaml is now; it is read anew for each task
	MCPListen string        `json:"mcp_listen,omitempty"` // HOST:PORT on loopback; empty: MCP over HTTP is not served
	Idle      time.Duration `json:"idle,omitempty"`       // the service ends after so long without client and task; 0: never
	JSON      bool          `json:"json,omitempty"`       // what is said on standard output is JSON lines
	Version   string        `json:"version"`
}

// Check reports the first thing that is not as the launcher needs it.
func (s *Settings) Check() error {
	for _, dir := range []string{s.Config, s.Data, s.State, s.Runtime, s.Home} {
		if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
			return invalid("the folder %q is not absolute", clip(dir))
		}
	}
	if s.Idle < 0 {
		return invalid("a number below 0")
	}
	return s.Tasks.Check()
}

// Path is the PATH of whoever started the service: where its git and its agents
// are looked for.
func (s *Settings) Path() string {
	for _, pair := range s.Env {
		if list, ok := strings.CutPrefix(pair, "PATH="); ok {
			return list
		}
	}
	return ""
}

// Names of files of the service.
const (
	LockName = "serve.lock" // in the runtime folder and in the data folder: held by the service, which has its pid in it
	LogName  = "serve.log"  // in the state folder: JSON lines
	Folder   = "engine"     // of the data folder: a folder for each task and check
	Control  = "control"    // of the state folder: control's own
)

// Said is a line of `bailey serve --local --json`.
type Said struct {
	Type    string    `json:"type"` // serving, resumed, warning, stopping, stopped
	Time    time.Time `json:"time"`
	PID     int       `json:"pid,omitempty"`
	Socket  string    `json:"socket,omitempty"`
	MCP     string    `json:"mcp,omitempty"` // address; absent where it is not served
	Log     string    `json:"log,omitempty"`
	Tasks   int       `json:"tasks,omitempty"` // of resumed: how many
	Message string    `json:"message,omitempty"`
}
