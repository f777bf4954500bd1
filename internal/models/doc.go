// Package models reads the file that says which models there are, who provides
// them, and what may be spent on them (models.yaml).
//
// The file is the user's own and held to one strict schema. What it says of a
// provider's address is where the user's key goes: it is never taken from a
// project. The package starts nothing and keeps no key; only Test asks a
// provider something, when a person wants it.
package models
