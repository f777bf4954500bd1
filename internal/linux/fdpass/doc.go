// Package fdpass hands open descriptors from one role to another over a Unix
// stream socket (SCM_RIGHTS, unix(7)).
package fdpass
