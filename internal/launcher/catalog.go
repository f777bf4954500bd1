package launcher

import (
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey/internal/task"
)

// CatalogSettings is what the role is told that reads the user's files, on
// FDSettings. It has the environment of runners, and ends when it has said a
// Catalog on its standard output.
type CatalogSettings struct {
	Config string `json:"config"` // bailey's folder of settings
	Home   string `json:"home"`
	Models bool   `json:"models"` // the models, or else what tasks may do
}

// Catalog is what it says: the models, or what tasks may do, or why it cannot.
type Catalog struct {
	Models []task.Model `json:"models"`
	Tasks  Tasks        `json:"tasks"`
	Error  *Fault       `json:"error,omitempty"`
}

// Tasks is what the user's config.yaml says of what tasks may do.
type Tasks struct {
	Roots       []string `json:"roots"`        // absolute folders: repositories lie in them
	From        string   `json:"from"`         // who says so: the end of a sentence
	MaxParallel int      `json:"max_parallel"` // agents at once; 0: any number
}

// Check reports the first thing that is not as the launcher needs it.
func (t Tasks) Check() error {
	for _, dir := range t.Roots {
		if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
			return invalid("the folder %q is not absolute", clip(dir))
		}
	}
	if len(t.Roots) == 0 {
		return invalid("no folder is named for repositories")
	}
	return checkNumber("max_parallel", t.MaxParallel, 0, maxParallel)
}

// maxParallel bounds the agents at once.
const maxParallel = 1 << 20

// MaxCatalog bounds a Catalog, in bytes.
const MaxCatalog = 4 << 20
