// Package sandbox is the life of a sandbox as every engine sees it: the closed
// specification that an engine gets, and the list of steps that makes one and
// takes it down again. It starts no process and touches no kernel facility.
package sandbox
