// Package phase knows plans: lists of units of work that agents do one after
// another. It reads a plan from Markdown or YAML, says in which words a unit is
// handed to its agent, keeps the record of how far a phase has come, and writes
// the report of it.
//
// It starts nothing and touches no repository: internal/app/autophase does.
package phase
