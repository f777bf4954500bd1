// Package task holds the words of delegation: what a planner asks for, what
// it gets back, and the doors that both go through. It does no I/O.
//
// internal/delegate keeps the life of tasks and is the Service; internal/taskapi
// is the same Service over a socket; internal/mcp and the command line speak to
// either and to nothing else.
package task
