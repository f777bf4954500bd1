package gateway

import (
	"slices"
	"strings"
)

// listQueries are what the providers' own clients ask a list of models with.
func listQueries() []string {
	return []string{"limit", "after_id", "before_id", "after", "before", "order", "beta", "pageSize", "pageToken", "client_version"}
}

// RouteModels tells the endpoint of a GET for the list of models at a path, or
// for one of it. Nothing of the target goes anywhere, and a query that cuts the list
// has nothing to cut in it.
func RouteModels(list, target string) Endpoint {
	path, query, _ := strings.Cut(target, "?")
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); query != "" && !slices.Contains(listQueries(), name) {
			return None
		}
	}
	if path == list {
		return Models
	}
	if name, one := strings.CutPrefix(path, list+"/"); one && IsModelName(name) {
		return Model
	}
	return None
}

// IsModelName reports whether a name is a model's as it may stand in a path. It is
// not sent, but a name with a slash, an escape or only dots would make another
// path of it.
func IsModelName(name string) bool {
	if name == "" || len(name) > 128 || strings.Trim(name, ".") == "" {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
