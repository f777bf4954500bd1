package run

import (
	"time"

	"github.com/bailey-dev/bailey/internal/control"
)

// Sample answers `bailey stats`.
func (u *running) Sample() control.Sample {
	return control.Sample{Name: u.plan.name, ID: u.plan.spec.ID, Time: time.Now()}
}
