// Package mcp is delegation for planners that speak the Model Context
// Protocol: the tools of a task.Service, over standard input and output or over
// streamable HTTP on the loopback.
//
// What a planner asks for is checked against the tools' schemas and handed to
// the service, which checks it again; nothing here starts, reads or writes
// anything of a task's. What an agent wrote passes through in the fence that
// the service put around it, and is named untrusted. Errors that a planner can
// do something about are errors of the tool, with a hint.
//
// HTTP is for the machine itself: [Serve] wants a listener on the loopback, and
// each request has to have the right Host, no foreign Origin and the token.
package mcp
