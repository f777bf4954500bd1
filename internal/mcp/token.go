package mcp

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bailey-dev/bailey"
)

// tokenBytes is how much chance is in a token, which is written in hexadecimal
// digits. The service makes it the same way where there is none.
const tokenBytes = 32

// Token reads the token of the HTTP door from its file, or makes both. A file
// that others can read is a *bailey.Error of kind Forbidden: its token may be
// known.
func Token(path string) (string, error) {
	token, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		return RotateToken(path)
	}
	return token, err
}

// RotateToken makes a new token. A service takes it from its next start on, and
// the old one until then.
func RotateToken(path string) (string, error) {
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // never fails (crypto/rand documentation, Go 1.24)
	token := hex.EncodeToString(secret)
	if err := writeToken(path, token); err != nil {
		return "", bailey.WrapError(bailey.Unavailable, "keep the token of the MCP door", err, "is the folder "+filepath.Dir(path)+" yours?")
	}
	return token, nil
}

func readToken(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	bad := bailey.NewError(bailey.Forbidden, path+" is not the token that bailey made: a plain file of yours, of mode 0600, of 64 hexadecimal digits", "bailey mcp token --rotate makes a new one, which clients have to be told")
	if errors.Is(err, syscall.ELOOP) {
		return "", bad
	}
	if err != nil {
		return "", bailey.WrapError(bailey.Unavailable, "read the token of the MCP door", err, "")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("stat %s: %w", path, err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || int(owner.Uid) != os.Getuid() {
		return "", bad
	}
	text, err := io.ReadAll(io.LimitReader(f, 2*tokenBytes+2))
	if err != nil {
		return "", bailey.WrapError(bailey.Unavailable, "read the token of the MCP door", err, "")
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	if raw, err := hex.DecodeString(string(text)); err != nil || len(raw) != tokenBytes {
		return "", bad
	}
	return string(text), nil
}

// writeToken puts the file in its place whole, and never readable by others.
func writeToken(path, token string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-") // 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// sameToken compares in a time that says nothing of the token, not even of its
// length.
func sameToken(got string, sum []byte) bool {
	have := sha256.Sum256([]byte(got))
	return subtle.ConstantTimeCompare(have[:], sum) == 1
}
