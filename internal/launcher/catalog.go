package launcher

import "github.com/bailey-dev/bailey/internal/task"

// CatalogSettings is what the role is told that lists models and agents, on
// FDSettings. It has the environment of runners, and ends when it has said a
// Catalog on its standard output.
type CatalogSettings struct {
	Config string `json:"config"` // bailey's folder of settings
	Home   string `json:"home"`
}

// Catalog is what it says: models, or why there are none.
type Catalog struct {
	Models []task.Model `json:"models"`
	Error  *Fault       `json:"error,omitempty"`
}

// MaxCatalog bounds a Catalog, in bytes.
const MaxCatalog = 4 << 20
