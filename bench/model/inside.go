package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
)

// Addresses that a worker inside a sandbox fills in itself.
const (
	atGateway = "gateway"
	atBeside  = "beside" // a provider in the sandbox
)

// inside is the worker in a sandbox: orders come on its standard input, a line
// of JSON each, and results go to its standard output.
func inside(in io.Reader, out io.Writer) error {
	beside, stop, err := startBeside()
	if err != nil {
		return err
	}
	defer stop()
	w := &worker{}
	orders, results := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		switch o.Way.Addr {
		case atGateway:
			o.Way.Addr = strings.TrimPrefix(os.Getenv("ANTHROPIC_BASE_URL"), "http://")
			o.Way.Token = os.Getenv("ANTHROPIC_AUTH_TOKEN")
		case atBeside:
			o.Way.Addr = beside
		}
		if err := results.Encode(w.do(o)); err != nil {
			return err
		}
	}
}

// startBeside starts a provider in a process of its own, as the host's is.
func startBeside() (addr string, stop func(), err error) {
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe")
	cmd.Args = []string{argvBeside}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	in, err := cmd.StdinPipe() // its end is the process's
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("start a provider beside: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}

// beside is that process.
func beside(in io.Reader, out io.Writer) error {
	p, err := newProvider(context.Background())
	if err != nil {
		return err
	}
	defer p.close()
	if _, _, err := net.SplitHostPort(p.at); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, p.at); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
