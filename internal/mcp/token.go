package mcp

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
)

const (
	tokenPrefix = "blm-"
	// tokenFile is below the folder of bailey's data.
	tokenFile = "mcp-token"
	mostToken = 256
)

// TokenPath is where the token of the HTTP door is kept, below the folder of
// bailey's data.
func TokenPath(data string) string { return filepath.Join(data, tokenFile) }

// Token reads the token, or makes one if there is none. A file that others can
// read is refused: its token may be known.
func Token(path string) (string, error) {
	token, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		return RotateToken(path)
	}
	return token, err
}

// RotateToken makes a new token; the old one is worth nothing from then on.
func RotateToken(path string) (string, error) {
	token := tokenPrefix + rand.Text()
	if err := writeToken(path, token); err != nil {
		return "", bailey.WrapError(bailey.Unavailable, "keep the token of the MCP door", err, "is the folder "+filepath.Dir(path)+" yours?")
	}
	return token, nil
}

func readToken(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return "", bailey.WrapError(bailey.Unavailable, "read the token of the MCP door", err, "")
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("stat %s: %w", path, err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || !fi.Mode().IsRegular() || fi.Mode().Perm()&0o077 != 0 || int(st.Uid) != os.Getuid() {
		return "", bailey.NewError(bailey.Forbidden, path+" can be read or changed by others than its owner", "make a new token with bailey mcp token --rotate")
	}
	data := make([]byte, mostToken+1)
	n, _ := f.Read(data)
	token := string(bytes.TrimSpace(data[:n]))
	if n > mostToken || len(token) < len(tokenPrefix)+20 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", bailey.NewError(bailey.Invalid, path+" holds no token", "make a new one with bailey mcp token --rotate")
	}
	return token, nil
}

// writeToken puts the file in its place whole, and never readable by others.
func writeToken(path, token string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".mcp-token-") // 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// sameToken compares in a time that says nothing of the token, not even of its
// length. An empty token is never right.
func sameToken(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && want != ""
}
