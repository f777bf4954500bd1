// Package inject lends secrets: it puts values in the place of placeholders on
// requests to the hosts of their rules, refuses placeholders anywhere else, and
// keeps values out of answers. It is the only package that reveals a value to
// a request.
package inject
