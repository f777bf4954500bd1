// Package upstream leaves a network by way of its own proxy, as some are left by
// one alone: which hosts are reached so, and how it is asked for a tunnel.
package upstream
