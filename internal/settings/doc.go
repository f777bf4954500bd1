// Package settings reads policy files (bailey.yaml) and says what holds: the
// user's own file, the project's, presets and flags, each rule with where it
// comes from.
//
// A file is held to one strict schema, of which the published JSON Schema is
// drawn; whatever it does not know is an error with a position. A project's
// file may have been written by anybody: it is bounded, read without following
// a link, and can only tighten what the user's file and flags allow, until the
// user trusts its very content.
//
// The package decides nothing about the network: internal/policy does. Its
// callers are internal/app/run and internal/cli.
package settings
