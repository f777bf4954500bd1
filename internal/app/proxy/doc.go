// Package proxy is the role that stands at a sandbox's one way out: a process
// of its own, confined before it reads a hostile byte, that serves the
// listeners of an airlock with internal/dns and internal/egress.
//
// It is given everything by descriptor: 3 is its settings, one JSON document;
// 4 is a Unix stream socket over which the listeners arrive
// (internal/linux/fdpass) and whose end is the sandbox's end; 5 takes its
// events, one JSON object a line; on 6, a Unix stream socket, it is told what
// changes (gate.Message) and answers what became of it. It takes nothing from arguments or
// environment, opens no listener, starts no process and writes no file. Its
// caller is cmd/bailey, its starter internal/app/run.
package proxy
