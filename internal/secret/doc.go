// Package secret holds what is known of a secret but its value: where it may
// go and how it is put on a request, templates for well-known services, and
// placeholders, which stand for it in a sandbox.
package secret
