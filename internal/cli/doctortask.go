package cli

import (
	"context"
	"os"

	"github.com/bailey-dev/bailey/internal/app/run"
	"github.com/bailey-dev/bailey/internal/app/runner"
	"github.com/bailey-dev/bailey/internal/doctor"
	"github.com/bailey-dev/bailey/internal/rootfs"
)

// task shows what the sandbox of a task is.
func (c *doctorCommand) task(a *app) error {
	p := a.doctorPrinter(c.JSON)
	p.begin("setuid files")
	rows, err := doctor.Task(a.ctx, doctor.TaskConfig{
		UID: a.host.UID, PID: os.Getpid(), Inside: run.TaskDir, Masked: rootfs.Managers(), SetIDs: rootfs.SetIDs(""),
		Start: a.startTask, Temp: tempWorkspace, Begin: p.begin, Done: p.row,
	})
	p.clear()
	if err != nil {
		return err
	}
	return a.reportLayers(rows, c.JSON)
}

// startTask starts a sandbox as a runner does, in this process.
func (a *app) startTask(ctx context.Context, dir string, argv []string) (doctor.Sandbox, error) {
	h := a.host
	pipes, err := openPipes(&h)
	if err != nil {
		return nil, err
	}
	s := &started{pipes: pipes, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.code, s.err = runner.Probe(ctx, h, dir, argv)
		pipes.closeTheirs()
	}()
	return s, nil
}
