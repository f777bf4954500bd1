// Package mirror finds out where the package managers of this machine fetch
// from, by reading their own configuration: no host is known here. It runs no
// program, asks nobody, and reads nothing below the workspace, where a sandbox
// could have written it.
//
// Its caller is internal/settings, for the presets of package managers.
package mirror
