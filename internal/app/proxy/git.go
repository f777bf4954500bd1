package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/bailey-dev/bailey/internal/egress"
	"github.com/bailey-dev/bailey/internal/gate"
	"github.com/bailey-dev/bailey/internal/linux/fdpass"
	"github.com/bailey-dev/bailey/internal/linux/inherit"
	"github.com/bailey-dev/bailey/internal/sshgit"
)

// newGit makes what is for git over SSH, or nil where there is none: only then
// is the descriptor that of the process with the user's key.
func newGit(key []byte) (*egress.Git, error) {
	if len(key) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	if err := inherit.Check(gate.FDGit, gate.FDGit); err != nil {
		return nil, err
	}
	signer := inherit.Polled(gate.FDGit, "git")
	server, err := sshgit.NewServer(key)
	if err != nil {
		return nil, err
	}
	return &egress.Git{Server: server, Hand: func(r sshgit.Request, up *net.TCPConn) (io.WriteCloser, io.ReadCloser, error) {
		return handOver(signer, r, up)
	}}, nil
}

// handOver gives a command and a connection to the process with the user's key,
// and returns the ends of two pipes to it.
func handOver(signer *os.File, r sshgit.Request, up *net.TCPConn) (in io.WriteCloser, out io.ReadCloser, err error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, nil, fmt.Errorf("encode request: %w", err)
	}
	conn, err := up.File()
	if err != nil {
		return nil, nil, fmt.Errorf("hand over connection: %w", err)
	}
	defer conn.Close()
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	defer theirIn.Close()
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make pipe: %w", err), ourIn.Close())
	}
	defer theirOut.Close()
	if err := fdpass.SendFiles(signer, payload, []*os.File{conn, theirIn, theirOut}); err != nil {
		return nil, nil, errors.Join(err, ourIn.Close(), ourOut.Close())
	}
	return ourIn, ourOut, nil
}
