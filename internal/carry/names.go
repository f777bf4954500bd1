package carry

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bailey-dev/bailey/internal/gitdata"
)

// badName says why a name in a folder is not carried into a repository; "" if
// it is. What a checkout on any file system could take for a git folder, what a
// person cannot see in a list, and what a program could take for an option.
func badName(name string) string {
	switch {
	case gitdata.IsDotGit(name) || shortDotGit(name):
		return "a name that a file system may take for .git"
	case strings.HasPrefix(name, "-"):
		return "a name that a program may take for an option"
	case !utf8.ValidString(name):
		return "a name that is not UTF-8"
	}
	for _, r := range name {
		if hidden(r) {
			return "a name with a control character"
		}
	}
	return ""
}

// shortDotGit knows the other short names that NTFS may give to .git.
func shortDotGit(name string) bool {
	return len(name) == 5 && strings.EqualFold(name[:4], "git~") && name[4] >= '1' && name[4] <= '9'
}

// gitFile reports whether git reads a file of this name from a work tree, in
// any way that a file system may spell it: such a file is never a link.
func gitFile(name string) bool {
	lower := strings.ToLower(strings.TrimRight(strings.Map(visible, name), ". "))
	switch lower {
	case ".gitmodules", ".gitattributes", ".gitignore", ".mailmap":
		return true
	}
	short, _, tilde := strings.Cut(lower, "~") // gitmod~1, gi7eba~1
	return tilde && (strings.HasPrefix(short, "gitmod") || strings.HasPrefix(short, "gi7eba") || strings.HasPrefix(short, "gitatt") ||
		strings.HasPrefix(short, "gi7d29") || strings.HasPrefix(short, "gitign") || strings.HasPrefix(short, "gi250a"))
}

func visible(r rune) rune {
	if hidden(r) || r >= 0x200b && r <= 0x200f || r >= 0x206a && r <= 0x206f || r == 0xfeff {
		return -1
	}
	return r
}

// badLink says why a symbolic link at a path of the tree is not carried.
func badLink(at, target string) string {
	switch {
	case target == "" || strings.ContainsRune(target, 0):
		return "a link to nothing"
	case strings.HasPrefix(target, "/") || strings.HasPrefix(target, `\`) || len(target) > 1 && target[1] == ':':
		return "a link to an absolute path"
	case gitFile(path.Base(at)):
		return "a link in the place of a file that git reads"
	}
	if strings.ContainsFunc(target, hidden) {
		return "a link whose target has a control character"
	}
	return badWay(strings.Count(at, "/"), strings.ReplaceAll(target, `\`, "/"))
}

// badWay follows a link's target from a folder that lies so deep in the tree.
func badWay(depth int, target string) string {
	down := false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			// Behind a name, which may itself be a link, no one can say from the
			// text where ".." leads.
			if depth--; depth < 0 || down {
				return "a link that may lead out of the tree"
			}
		case gitdata.IsDotGit(part) || shortDotGit(part):
			return "a link into a git folder"
		default:
			down = true
		}
	}
	return ""
}

// badContents says why the contents of a file that git reads are not carried:
// git would refuse to take them in (fsck.c), and all the rest with them.
func badContents(name string, data []byte) string {
	switch base := path.Base(name); {
	case strings.EqualFold(base, ".gitattributes"):
		return badAttributes(data)
	case gitFile(base) && strings.Contains(strings.ToLower(strings.Map(visible, base)), "mod"):
		return badModules(data)
	}
	return ""
}

func badAttributes(data []byte) string {
	const longest, largest = 2047, 1 << 20
	if len(data) > largest {
		return "attributes that are too many"
	}
	for line := range strings.Lines(string(data)) {
		if len(line) > longest {
			return "attributes with a line that is too long"
		}
	}
	return ""
}

// badModules checks the settings of submodules by which git has been made to
// run something (CVE-2018-17456, CVE-2018-11235, CVE-2025-48384).
func badModules(data []byte) string {
	const bad = "settings of submodules that git could be made to run something by"
	cfg, err := gitdata.ParseConfig(data)
	if err != nil || strings.ContainsRune(string(data), 0) {
		return bad
	}
	if slices.ContainsFunc(cfg, badModule) {
		return bad
	}
	return ""
}

func badModule(e gitdata.Entry) bool {
	if e.Section != "submodule" {
		return false
	}
	name := "/" + strings.ReplaceAll(e.Subsection, `\`, "/") + "/"
	value := strings.TrimSpace(e.Value)
	if strings.Contains(name, "/../") || strings.HasPrefix(name, "/-") || strings.ContainsFunc(e.Subsection+e.Value, hidden) {
		return true
	}
	switch e.Key {
	case "path":
		return strings.HasPrefix(value, "-") || badPath(value)
	case "url":
		return strings.HasPrefix(value, "-") || strings.Contains(value, "::") || strings.Contains(value, "%0")
	case "update":
		return strings.HasPrefix(value, "!")
	}
	return false
}

func badPath(value string) bool {
	if strings.HasPrefix(value, "/") {
		return true
	}
	for part := range strings.SplitSeq(value, "/") {
		if part == ".." || badName(part) != "" {
			return true
		}
	}
	return false
}
