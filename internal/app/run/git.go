package run

import (
	"time"

	"github.com/bailey-dev/bailey/internal/workspace"
)

// watchGit has the sandbox ended when it makes something through which the
// host's git would act for it before the run is over: until the end, nobody
// sets anything right.
func (u *running) watchGit() {
	u.trip = workspace.NewTripwire(u.plan.guards())
	go u.trip.Run() // until Stop, which waits for it
	go func() {
		if f, ok := <-u.trip.Tripped(); ok {
			u.stop <- ending{reason: reasonGit, message: f.Path + " " + f.What, at: time.Now()}
		}
	}()
}
