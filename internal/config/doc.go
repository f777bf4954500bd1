// Package config reads what a person sets: the environment (nothing else in
// the tree reads it), sizes and durations as people write them, the folders
// bailey keeps things in, and the defaults. It decides nothing else.
package config
