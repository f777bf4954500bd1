package rootfs

import (
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/gitdata"
)

// gitConfig is the sandbox's /etc/gitconfig: who commits, which folders git
// may trust, and four settings for a work tree that is seen through a
// user-space kernel. There inode numbers differ from start to start, so git
// must not compare them (checkStat, trustctime: without these the first
// status inside and the next one outside re-read every file), threads cost
// more than they bring (preloadIndex), and reading folders is dear
// (untrackedCache). Nothing else of the host's git configuration is known
// inside.
func gitConfig(h Host) string {
	var b strings.Builder
	b.WriteString("[core]\n\tcheckStat = minimal\n\ttrustctime = false\n\tpreloadIndex = false\n\tuntrackedCache = true\n")
	if h.GitName != "" || h.GitEmail != "" {
		b.WriteString("[user]\n")
		writeConfig(&b, "name", h.GitName)
		writeConfig(&b, "email", h.GitEmail)
	}
	b.WriteString("[safe]\n")
	dirs := append([]string{h.Workspace}, h.SafeDirs...)
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		writeConfig(&b, "directory", dir)
		writeConfig(&b, "directory", strings.TrimSuffix(dir, "/")+"/*") // git 2.46 and later: all below
	}
	return b.String()
}

func writeConfig(b *strings.Builder, key, value string) {
	if value != "" {
		b.WriteString("\t" + key + " = " + gitdata.QuoteConfigValue(value) + "\n")
	}
}
