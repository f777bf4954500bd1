package control

import (
	"context"
	"net"
	"time"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/mcp"
	"github.com/bailey-dev/bailey/internal/task"
)

// mcpDoor serves MCP over HTTP.
type mcpDoor struct {
	listener net.Listener
	server   *mcp.Server
	door     mcp.Door
}

// openMCP takes the socket for MCP, if there is one.
func openMCP(s launcher.ControlSettings, service task.Service, use *activity) (*mcpDoor, error) {
	if s.MCPAddr == "" {
		return nil, nil //nolint:nilnil // it is not served, and that is right
	}
	server, err := mcp.New(mcp.Config{Service: service, Version: s.Version, Now: time.Now})
	if err != nil {
		return nil, err
	}
	l, err := listener(launcher.FDMCP, "MCP")
	if err != nil {
		return nil, err
	}
	return &mcpDoor{listener: l, server: server, door: mcp.Door{TokenSum: s.MCPToken, Clients: use.mcp}}, nil
}

// serve answers until ctx ends.
func (m *mcpDoor) serve(ctx context.Context) error { return m.server.Serve(ctx, m.listener, m.door) }
