package control

import (
	"errors"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/bailey-dev/bailey/internal/launcher"
	"github.com/bailey-dev/bailey/internal/task"
)

// mcpDoor serves MCP over HTTP.
type mcpDoor struct {
	listener net.Listener
	http     http.Server
}

// openMCP takes the socket for MCP, if there is one.
func openMCP(s launcher.ControlSettings, service task.Service, use *activity) (*mcpDoor, error) {
	h := mcpHandler(s, service)
	if s.MCPAddr == "" || h == nil {
		return nil, nil //nolint:nilnil // it is not served, and that is right
	}
	l, err := listener(launcher.FDMCP, "MCP")
	if err != nil {
		return nil, err
	}
	const headTime, idleTime, maxHead = 10 * time.Second, 2 * time.Minute, 64 << 10
	open := newConnections(use.mcp)
	return &mcpDoor{listener: l, http: http.Server{
		Handler: h, ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead,
		ConnState: open.changed, ErrorLog: log.Default(),
	}}, nil
}

func (m *mcpDoor) serve() error {
	if err := m.http.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (m *mcpDoor) close() { _ = m.http.Close() }
