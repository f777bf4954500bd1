// Package firstproc holds the program that is the first process of every
// sandbox: cmd/sandboxd, built by `make gen` and embedded here. Where no image
// is embedded for an architecture, bailey's own binary plays the part.
package firstproc
