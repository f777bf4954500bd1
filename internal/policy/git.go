package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Requests of git's smart HTTP protocol (gitprotocol-http(5)).
const (
	gitRefs  = "/info/refs"
	gitFetch = "git-upload-pack"
	gitPush  = "git-receive-pack"
)

// CheckRepository refuses what cannot stand in Narrow.Repositories: the path
// of a repository on its host, without a slash in front and without .git.
func CheckRepository(repo string) error {
	const hint = "write it as owner/name"
	wrong := func(problem string) error {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("repository %q: %s", repo, problem), hint)
	}
	if strings.HasSuffix(repo, ".git") {
		return wrong("it ends in .git, which may be there or not")
	}
	for segment := range strings.SplitSeq(repo, "/") {
		switch {
		case segment == "":
			return wrong("it has an empty segment, or a slash at an end")
		case segment[0] == '.' && strings.Trim(segment, ".") == "":
			return wrong("it has a segment of dots")
		}
		for i := range len(segment) {
			if !isUnreserved(segment[i]) {
				return wrong(fmt.Sprintf("it holds the byte %q", segment[i]))
			}
		}
	}
	if _, err := NormalizePath("/" + repo); err != nil {
		return wrong(err.Error())
	}
	return nil
}

// ofGit reports whether the target is a request by which git fetches from one
// of the rule's repositories, or pushes to it where the rule says so. Nothing
// else of the query passes: a server may read more from it.
func (t *target) ofGit(n *Narrow) bool {
	if len(t.Targets) > 0 {
		return false
	}
	services := []string{gitFetch}
	if n.Push {
		services = append(services, gitPush)
	}
	return slices.ContainsFunc(services, func(service string) bool {
		switch {
		case t.Method == "GET" && t.Query == "service="+service:
			repo, ok := strings.CutSuffix(t.Path, gitRefs)
			return ok && n.hasRepository(repo)
		case t.Method == "POST" && t.Query == "":
			repo, ok := strings.CutSuffix(t.Path, "/"+service)
			return ok && n.hasRepository(repo)
		}
		return false
	})
}

func (n *Narrow) hasRepository(path string) bool {
	repo, ok := strings.CutPrefix(strings.TrimSuffix(path, ".git"), "/")
	return ok && slices.Contains(n.Repositories, repo)
}

// shown is the target's path for a sentence, with what tells a push from a
// fetch. The rest of a query is not repeated.
func (t *target) shown() string {
	if t.Query == "service="+gitPush {
		return t.Path + "?" + t.Query
	}
	if len(t.Targets) > 0 {
		return t.Path + " with " + strings.Join(t.Targets, " and ")
	}
	return t.Path
}

// asked is the target's method for a sentence.
func (t *target) asked() string {
	if t.shifty {
		return t.Method + " with another method in its query"
	}
	return t.Method
}
