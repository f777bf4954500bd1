// Package netlog is the record of what the network of sandboxes decided: JSON
// lines under the user's state folder, written by the bailey that holds a
// sandbox and read by `bailey net log`, and a live feed of the same records.
//
// It never decides anything, shows nothing, and makes up no field: a Record is
// what bailey.Event says. Nothing of it is in reach of a sandbox.
package netlog
