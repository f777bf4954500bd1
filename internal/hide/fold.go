package hide

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// fold returns the form in which names are compared. A file system that does
// not tell upper from lower case (vfat, NTFS, ext4 with casefold) opens a file
// by every name that folds to its own, so all of them have to be one here: case
// goes, and with it what such file systems pass over, characters without a
// width, and dots and blanks at the end.
func fold(name string) string {
	if folded(name) {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if !ignorable(r) {
			b.WriteRune(foldRune(r))
		}
	}
	if s := strings.TrimRight(b.String(), ". "); s != "" {
		return s
	}
	return name
}

// folded reports whether a name is in that form, as nearly all are.
func folded(name string) bool {
	for i := range len(name) {
		if c := name[i]; c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			return false
		}
	}
	return name == "" || name[len(name)-1] != '.' && name[len(name)-1] != ' '
}

// foldRune maps all forms of a letter to one: K, k and the sign of kelvin.
func foldRune(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return unicode.ToLower(least)
}

func ignorable(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
