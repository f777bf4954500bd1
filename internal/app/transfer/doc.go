// Package transfer is what a person does with `bailey cp`: files go between the
// host and a running sandbox as a tar stream, made or taken in by the tar of
// the sandbox at one end and by this package at the other.
//
// What comes out of a sandbox is hostile: names, links, sizes and kinds of
// files are judged entry by entry, all is written below a folder of its own by
// descriptors, and only a stream that was good to its end is put in its place.
// What goes in is read below descriptors as well: no link that a sandbox may
// have made in its workspace is followed.
package transfer
