package config

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bailey-dev/bailey"
)

// maxEnvFile bounds an environment file.
const maxEnvFile = 1 << 20

// ReadEnvFile reads an environment file in docker's form: one NAME=VALUE or
// NAME a line, no quoting, "#" starts a comment line. A NAME alone takes the
// caller's value.
func ReadEnvFile(path string, env Lookup) ([]string, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "--env-file", err, "check the path")
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxEnvFile {
		return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("--env-file %s: not a regular file of at most 1 MiB", path), "write one NAME=VALUE a line into a file, and name it")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "--env-file", err, "")
	}
	pairs, err := parseEnvFile(path, bufio.NewScanner(f), env)
	return pairs, errors.Join(err, f.Close())
}

func parseEnvFile(path string, sc *bufio.Scanner, env Lookup) ([]string, error) {
	sc.Buffer(nil, maxEnvFile)
	var pairs []string
	for line := 1; sc.Scan(); line++ {
		text := strings.TrimLeft(sc.Text(), " \t")
		if text == "" || text[0] == '#' {
			continue
		}
		name, _, given := cutName(text)
		if !validName(name) || strings.ContainsRune(text, 0) {
			// The line itself may be a secret: it is not repeated.
			return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("%s:%d:1: not NAME=VALUE", path, line), "write one NAME=VALUE a line, or a NAME alone")
		}
		if given {
			pairs = append(pairs, text)
			continue
		}
		v, ok := env(name)
		if !ok {
			return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("%s:%d:1: variable %s is not set here", path, line, name), "set it, or write "+name+"=VALUE")
		}
		pairs = append(pairs, name+"="+v)
	}
	if err := sc.Err(); err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "read "+path, err, "")
	}
	return pairs, nil
}

func cutName(s string) (name, value string, given bool) { return strings.Cut(s, "=") }

// validName reports whether s is a portable name of a variable (POSIX.1-2024,
// Base Definitions 3.206): letters, digits and underscores, no digit first.
func validName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || (c|0x20 >= 'a' && c|0x20 <= 'z')
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
