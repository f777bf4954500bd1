package launcher

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/launcher"
)

// tokenBytes is how much chance is in the token for MCP over HTTP.
const tokenBytes = 32

// token returns the SHA-256 of the token that clients of MCP over HTTP have to
// say. Its file is made where there is none, and else has to be as it was made:
// whoever can read it can give orders.
func token(dir string, uid int) ([]byte, error) {
	path := filepath.Join(dir, launcher.TokenName)
	text, err := readToken(path, uid)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeToken(dir, path); err != nil {
			return nil, err
		}
		text, err = readToken(path, uid)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}

// makeToken never replaces one that is there, and leaves none that is half
// written.
func makeToken(dir, path string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return bailey.WrapError(bailey.Unavailable, "make the folder "+dir, err, "")
	}
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // it never fails
	f, err := os.CreateTemp(dir, "."+launcher.TokenName+"-")
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "make the token for MCP", err, "")
	}
	_, err = f.WriteString(hex.EncodeToString(secret) + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) { // another start was faster
		err = nil
	}
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		return bailey.WrapError(bailey.Unavailable, "make the token for MCP", err, "")
	}
	return nil
}

func readToken(path string, uid int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read the token for MCP: %w", err)
	}
	defer func() { _ = f.Close() }()
	bad := bailey.NewError(bailey.Forbidden, path+" is not the token that bailey made: a plain file of yours, of mode 0600, of 64 hexadecimal digits", "remove it; the next start makes another, which clients have to be told")
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the token for MCP: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) != uid || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, bad
	}
	text, err := io.ReadAll(io.LimitReader(f, 2*tokenBytes+2))
	if err != nil {
		return nil, fmt.Errorf("read the token for MCP: %w", err)
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	if raw, err := hex.DecodeString(string(text)); err != nil || len(raw) != tokenBytes {
		return nil, bad
	}
	return text, nil
}
