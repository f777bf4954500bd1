// Package inject lends secrets: it puts values in the place of placeholders on
// requests to the hosts of their rules, refuses placeholders anywhere else, and
// keeps values out of answers. It is the only package that reveals a value to
// a request.
//
// Placeholders in requests and values in answers are recognised as they are, in
// base64 of both alphabets wherever in a group of three bytes they begin, in
// hexadecimal, in UTF-16, and behind the escapes of URLs, of JSON and JavaScript
// and of HTML, also where only some characters are escaped or all of them twice.
// They are found however a stream is split, and in its place each byte of a value
// is replaced by one of the placeholder, so lengths stay.
//
// What is not recognised: a value that is encrypted, hashed, compressed within a
// body that does not say so (an archive), reversed or cut into pieces by whoever
// sends it, encoded twice in different ways, or in base64 that is broken into
// lines. On its way out a placeholder in such a form is worth nothing: no value
// takes its place. On its way in a value in such a form is seen by the sandbox,
// if a host that was trusted with it sends it so.
//
// The package opens no connection and keeps no file. Its caller is
// internal/egress, which says for each request where it goes and whether the
// host has proved its name, and what goes over which connection.
package inject
