// Package spec holds the security claims of docs/threat-model.md as tests
// against the built binary: each carries out an attack, and its twin shows
// that the attack works once the control is off.
//
// It sees bailey from outside: it starts bin/bailey (or $BAILEY_BIN) and
// imports no package of the project but internal/testkit, the vocabulary, and
// internal/posture, whose comparison is itself a claim. It has no code besides
// tests.
package spec
