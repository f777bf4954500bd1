// Package nssdb writes a certificate database of NSS, the TLS library of
// Mozilla: the files cert9.db, key4.db and pkcs11.txt of a folder such as
// ~/.pki/nssdb, in which Chromium and programs of NSS look for whom their user
// trusts. The database holds one root, trusted for TLS servers and for nothing
// else, has no password and no key.
//
// The package makes bytes alone: it reads and writes no file, and runs no
// program. Its caller is internal/rootfs.
//
// The format is SQLite's with tables of NSS (lib/softoken/sdb.c and sftkdb.c).
// A library of SQLite would add 4.6 MB to the binary and time to each of its
// starts, for two files that are written once and never read here.
package nssdb
