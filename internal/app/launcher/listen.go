package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
)

// maxPath is how long the path of a socket may be (unix(7), sun_path).
const maxPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// listenClients makes the service's Unix socket. It is listened on before it
// has its name, so that nobody finds one that refuses them; one that a service
// left which was killed is replaced. Whoever makes it holds the lock of the
// folder.
func listenClients(runtime string) (*os.File, error) {
	path := filepath.Join(runtime, launcher.SocketName)
	fresh := filepath.Join(runtime, ".serve-"+strconv.Itoa(os.Getpid()))
	if len(fresh) > maxPath || len(path) > maxPath {
		return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("the path of the service's socket is longer than %d bytes: %s", maxPath, path), "set XDG_RUNTIME_DIR to a folder with a shorter path")
	}
	_ = os.Remove(fresh) // of a process that had this number
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, bailey.WrapError(bailey.Unavailable, "make the service's socket", err, "")
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	err = errors.Join(err, l.Close(), os.Chmod(fresh, 0o600), os.Rename(fresh, path))
	if err != nil {
		closeAll(f)
		return nil, bailey.WrapError(bailey.Unavailable, "make the service's socket", err, "")
	}
	return f, nil
}

// listenMCP makes the listener for MCP over HTTP. Another address than one of
// loopback is refused: the token would cross a network.
func listenMCP(ctx context.Context, address string) (*os.File, string, error) {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return nil, "", bailey.NewError(bailey.Invalid, fmt.Sprintf("MCP over HTTP cannot be served on %q: only loopback addresses are", address), "such as "+launcher.MCPListen)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, "", bailey.WrapError(bailey.Unavailable, "MCP over HTTP is not served", err, "choose another port with --mcp-listen or tasks.mcp_listen, or end the program that has this one")
	}
	at := l.Addr().String()
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, "", errors.Join(errors.New("listen for MCP: no TCP listener"), l.Close())
	}
	f, err := tcp.File()
	if err := errors.Join(err, l.Close()); err != nil {
		return nil, "", fmt.Errorf("listen for MCP: %w", err)
	}
	return f, at, nil
}
