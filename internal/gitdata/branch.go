package gitdata

import "strings"

// ValidBranch reports whether git would take a name for that of a branch, without
// refs/heads/ (git-check-ref-format(1)), and no program for an option.
func ValidBranch(branch string) bool {
	bad := branch == "" || len(branch) > 255 || strings.HasPrefix(branch, "-") || branch == "@" || branch == "HEAD" ||
		strings.Contains(branch, "..") || strings.Contains(branch, "@{") || strings.HasSuffix(branch, ".") ||
		strings.ContainsAny(branch, " ~^:?*[\\\x7f")
	for part := range strings.SplitSeq(branch, "/") {
		bad = bad || part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	for _, c := range []byte(branch) {
		bad = bad || c < ' '
	}
	return !bad
}
