package vault

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/pty"
	"github.com/bailey-dev/bailey/internal/seal"
)

// AskTerminal asks at the controlling terminal for a line, which is not shown
// while it is typed. A signal that ends the process ends the asking first, so
// that the terminal is as it was.
func AskTerminal(prompt string) (seal.Secret, error) {
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(gone)
	line, err := readHidden(prompt, func() bool { return len(gone) > 0 })
	switch {
	case errors.Is(err, pty.ErrSeveralLines):
		return seal.Secret{}, bailey.NewError(bailey.Invalid, "several lines were pasted", "paste one line; nothing of it was kept")
	case errors.Is(err, pty.ErrInterrupted) || errors.Is(err, io.EOF):
		return seal.Secret{}, bailey.NewError(bailey.Invalid, "nothing was given", "")
	case err != nil:
		// The cause (ENXIO: no controlling terminal) says nothing more.
		return seal.Secret{}, bailey.NewError(bailey.Unavailable, "there is no terminal to ask at", "start bailey in one")
	}
	return seal.NewSecret(line), nil
}

func readHidden(prompt string, giveUp func() bool) ([]byte, error) {
	keys, err := pty.OpenKeys()
	if err != nil {
		return nil, err
	}
	defer func() { _ = keys.Close() }()
	if err := keys.BeginLine(); err != nil {
		return nil, err
	}
	_, _ = io.WriteString(keys, prompt)
	line, err := keys.Line(MaxValue, giveUp)
	_, _ = io.WriteString(keys, "\r\n")
	return line, errors.Join(err, keys.End())
}
