package main

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"github.com/bailey-dev/bailey/internal/linux/origdst"
)

// fdListener is the plain proxy's listener.
const fdListener = 3

// plain is the least that can stand in bailey's place: it dials where each
// connection was going and joins the two by splice(2).
func plain() error {
	ln, err := net.FileListener(os.NewFile(fdListener, "listener"))
	if err != nil {
		return err
	}
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return errors.New("the listener is not a TCP socket")
	}
	for {
		c, err := tcp.AcceptTCP()
		if err != nil {
			return err
		}
		go join(c)
	}
}

func join(down *net.TCPConn) {
	defer func() { _ = down.Close() }()
	to, err := origdst.Of(down)
	if err != nil {
		return
	}
	up, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(up, down); _ = up.CloseWrite() })
	_, _ = io.Copy(down, up)
	_ = down.CloseWrite()
	both.Wait()
}
