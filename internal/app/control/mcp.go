package control

import (
	"context"
	"net"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
)

// mcpDoor serves MCP over HTTP.
type mcpDoor struct {
	listener net.Listener
	serve    func(ctx context.Context, l net.Listener) error
}

// openMCP takes the socket for MCP, if there is one.
func openMCP(s launcher.ControlSettings, _ task.Service, use *activity) (*mcpDoor, error) {
	if s.MCPAddr == "" {
		return nil, nil //nolint:nilnil // it is not served, and that is right
	}
	l, err := listener(launcher.FDMCP, "MCP")
	if err != nil {
		return nil, err
	}
	return &mcpDoor{listener: &counted{Listener: l, told: use.mcp}}, nil
}
