package launcher

import (
	"context"
	"strconv"
	"time"
)

// Host is an Engine as control has it: beside the list, control says whether
// anybody needs it yet.
type Host interface {
	Engine
	// Activity says how many clients are connected and how many tasks and
	// checks are not done. A service with --idle ends when both have been 0 for
	// that long. It is to be told at each change.
	Activity(ctx context.Context, a Activity) error
}

// Activity is what control has to do.
type Activity struct {
	Clients int `json:"clients"`
	Tasks   int `json:"tasks"`
	Resumed int `json:"resumed,omitempty"` // of the tasks that a service before this one left: since control began
}

// Check reports what cannot be.
func (a Activity) Check() error {
	const most = 1 << 20
	return first(checkNumber("clients", a.Clients, 0, most), checkNumber("tasks", a.Tasks, 0, most), checkNumber("resumed", a.Resumed, 0, most))
}

// SocketName is the name of the service's Unix socket in bailey's runtime
// folder.
const SocketName = "serve.sock"

// TokenName is the name of the file with the token for MCP over HTTP in
// bailey's configuration folder: 64 hexadecimal digits and a line feed.
const TokenName = "mcp-token"

// MCPListen is where MCP is served over HTTP unless something else is said.
const MCPListen = "127.0.0.1:8765"

// The descriptors that control is started with. Its standard input and output
// are the null device; what it writes to standard error ends in the service's
// log, a line at a time, marked as control's.
const (
	FDSettings = 3 // read: ControlSettings as one JSON document, to its end
	FDEngine   = 4 // socket for packets: what Client speaks; its end is control's
	FDClients  = 5 // listening Unix stream socket, for internal/taskapi
	FDMCP      = 6 // listening TCP socket on loopback; the null device if MCPAddr is empty
	FDState    = 7 // control's own folder, 0700: StatePath leads to it
)

// StatePath is where control finds its own folder. By another path it may be
// out of its reach: as root's service it has an id of its own.
func StatePath() string { return "/proc/self/fd/" + strconv.Itoa(FDState) }

// Folders are those of bailey's that tell one service from another.
type Folders struct {
	Config string `json:"config"`
	Data   string `json:"data"`
	State  string `json:"state"`
}

// ControlSettings is what control has to know.
type ControlSettings struct {
	UID         int           `json:"uid"`                 // whose service it is: peers of FDClients have this id, or 0
	MCPAddr     string        `json:"mcp_addr,omitempty"`  // HOST:PORT that FDMCP listens on; empty: MCP over HTTP is not served
	MCPToken    []byte        `json:"mcp_token,omitempty"` // SHA-256 of the text that a client has to say
	MaxParallel int           `json:"max_parallel"`        // tasks at once, over all models; 0: task.MostAgents
	Idle        time.Duration `json:"idle,omitempty"`      // the service ends after so long without client and task; 0: never
	Version     string        `json:"version"`             // of bailey
	Folders     Folders       `json:"folders"`             // what the service works on
	Path        string        `json:"path,omitempty"`      // the PATH that agents are looked for on
	Restarted   int           `json:"restarted,omitempty"` // how often control has crashed before in this service
}
