package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

func (l *lab) startPlain(ctx context.Context) ([]*contender, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil, errors.New("the listener is not a TCP socket")
	}
	file, err := tcp.File()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{cmd: exec.CommandContext(ctx, l.self)}
	p.cmd.Args, p.cmd.ExtraFiles = []string{argvPlain, l.provider.at}, []*os.File{file}
	if err := l.start(p); err != nil {
		return nil, err
	}
	return []*contender{{name: casePlain, way: way{Addr: ln.Addr().String()}, ask: (&worker{}).ask, proxy: p, pid: p.cmd.Process.Pid}}, nil
}

// startPortkey starts Portkey's gateway, which speaks the dialect as well.
func (l *lab) startPortkey(ctx context.Context) ([]*contender, error) {
	folder, err := filepath.Abs(filepath.Join(l.portkey, "node_modules/@portkey-ai/gateway"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		return nil, errors.New("it is not installed (.ci/deps bench installs it, with npm)")
	}
	var about struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return nil, err
	}
	l.portkeyVersion = about.Version
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, "node", filepath.Join(folder, "build/start-server.js"), "--port="+strconv.Itoa(port), "--headless")}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "NODE_ENV=production", "TRUSTED_CUSTOM_HOSTS=127.0.0.1"}
	if err := l.start(p); err != nil {
		return nil, err
	}
	c := &contender{
		name: casePortkey, ask: (&worker{}).ask, proxy: p, pid: p.cmd.Process.Pid,
		way: way{
			Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Token: "key",
			Head: "X-Portkey-Provider: anthropic\r\nX-Portkey-Custom-Host: http://" + l.provider.at + "/v1\r\n",
		},
	}
	err = p.until(ctx, func() bool {
		conn, err := dialTCP(ctx, c.way.Addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	// Version 1.15.2 answers streams of this dialect with status 500: it changes
	// fields of the provider's answer that Node does not let it change.
	if _, err := c.do(order{Do: "calls", Kind: kind{Stream: true}, N: 1}); err != nil {
		c.noStreams = true
		l.portkeyVersion += ", which fails streams here"
	}
	return []*contender{c}, nil
}

// freePort is a port that nobody had a moment ago.
func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	tcp, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("%s is no address of TCP", ln.Addr())
	}
	return tcp.Port, nil
}
