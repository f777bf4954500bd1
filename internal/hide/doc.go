// Package hide decides by their names which files of a workspace a sandbox does
// not see: what usually holds a secret, unless somebody named it. It reads no
// file and looks at nothing but names, so a rule costs the same in a tree of a
// thousand files and of a million, and holds for files that are made later.
package hide
