// Package ocispec translates a sandbox's specification into an OCI runtime
// specification. It is pure: the same input gives the same output, and it
// reads nothing of the machine.
package ocispec
