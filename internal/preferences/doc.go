// Package preferences handles the settings files of agents, JSON and TOML, as
// trees: it reads them whoever wrote them, lays one over another, and says what
// was changed in between.
//
// What it reads may come from a sandbox: it is bounded in size and depth before
// anything is made of it. It opens no file and knows no agent: internal/bridge
// and internal/app/run hand in bytes.
package preferences
