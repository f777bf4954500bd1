// Package leak finds secrets where they should not be: in the files of a
// workspace, and in variables that are about to be passed to a sandbox. The
// rules are those of gitleaks (gitleaks/rules.json, which tools/leakrules
// writes), by Go's regular expressions, each compiled when a file first has one
// of its words; and the prefixes that internal/secret knows.
//
// It never gives a value away: a Finding holds the place, the kind and at most
// the first four bytes. It writes nothing, asks nobody, and takes the workspace
// for hostile. Its callers are the command line and, for LooksLike alone, the
// start of a run.
package leak
