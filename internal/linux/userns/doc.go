// Package userns makes user namespaces: as descriptors that carry an id map
// for a mount, and as probes that say whether this machine lets a caller have
// one at all.
package userns
