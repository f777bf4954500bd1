package sshgit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what a push begins with (gitprotocol-pack(5), Reference Update
// Request).
const (
	maxUpdates = 1000
	pktHead    = 4
	maxPkt     = 65520
)

// ErrRef is why a push was refused.
var ErrRef = errors.New("the push was refused")

// screenPush reads the references that a push wants to update, and returns what
// is to be passed on: what was read, and then the rest. An error that wraps
// ErrRef says what is not allowed; nothing has been passed on then.
func screenPush(in io.Reader, branches []string) (io.Reader, error) {
	var held bytes.Buffer
	for updates := 0; ; updates++ {
		if updates > maxUpdates {
			return nil, fmt.Errorf("%w: it updates more than %d references", ErrRef, maxUpdates)
		}
		line, flush, err := readPkt(in, &held)
		switch {
		case errors.Is(err, io.EOF) && held.Len() == 0:
			return &held, nil // it wanted nothing
		case err != nil:
			return nil, err
		case flush:
			return io.MultiReader(&held, in), nil
		}
		if err := checkUpdate(line, branches); err != nil {
			return nil, err
		}
	}
}

// readPkt reads one pkt-line (gitprotocol-common(5)) and keeps its bytes.
func readPkt(in io.Reader, held *bytes.Buffer) (line string, flush bool, err error) {
	var head [pktHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return "", false, err
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	if err != nil || n > maxPkt || n > 0 && n <= pktHead {
		return "", false, fmt.Errorf("%w: what it begins with cannot be read", ErrRef)
	}
	held.Write(head[:])
	if n == 0 {
		return "", true, nil
	}
	body := make([]byte, n-pktHead)
	if _, err := io.ReadFull(in, body); err != nil {
		return "", false, err
	}
	held.Write(body)
	return string(body), false, nil
}

// checkUpdate holds one line of a push to the branches that it may update.
func checkUpdate(line string, branches []string) error {
	line, can, _ := strings.Cut(line, "\x00")
	if slices.Contains(strings.Fields(can), "push-options") {
		// What a host does by them, it does to other branches too.
		return fmt.Errorf("%w: it has options for the host (git push -o), which may be about other branches", ErrRef)
	}
	line = strings.TrimSuffix(line, "\n")
	words := strings.Split(line, " ")
	if len(words) == 2 && words[0] == "shallow" && isObject(words[1]) {
		return nil
	}
	if len(words) != 3 || !isObject(words[0]) || !isObject(words[1]) {
		return fmt.Errorf("%w: it says more than which references are to be updated (a signed push does)", ErrRef)
	}
	ref := words[2]
	name, isBranch := strings.CutPrefix(ref, "refs/heads/")
	switch {
	case !isBranch || !allowed(name, branches):
		return fmt.Errorf("%w: %s is not one of the branches that may be pushed to: %s", ErrRef, clip(ref), strings.Join(branches, ", "))
	case strings.Trim(words[1], "0") == "":
		return fmt.Errorf("%w: it deletes %s, and no branch may be deleted", ErrRef, clip(ref))
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), 200)] }

// isObject takes a name of SHA-1 or SHA-256.
func isObject(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// allowed holds a name to patterns of which one that ends in /* is for all below.
func allowed(name string, branches []string) bool {
	for _, b := range branches {
		if below, all := strings.CutSuffix(b, "*"); b == name || all && len(name) > len(below) && strings.HasPrefix(name, below) {
			return true
		}
	}
	return false
}
