package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/bailey-dev/bailey"
)

// MaxEnvFile is how many bytes an environment file may have.
const MaxEnvFile = 1 << 20

// ReadEnvFile reads the environment file at path, which messages call name.
// Links are followed: the file and the way to it are the caller's own.
func ReadEnvFile(name, path string, env Lookup) ([]string, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "--env-file", err, "check the path")
	}
	if !fi.Mode().IsRegular() || fi.Size() > MaxEnvFile {
		return nil, NotAnEnvFile(name)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "--env-file", err, "")
	}
	return ParseEnvFile(name, data, env)
}

// NotAnEnvFile says that a file cannot be read as one.
func NotAnEnvFile(name string) error {
	return bailey.NewError(bailey.Invalid, fmt.Sprintf("--env-file %s: not a regular file of at most 1 MiB", name), "write one NAME=VALUE a line into a file, and name it")
}

// ParseEnvFile reads an environment file in docker's form: one NAME=VALUE or
// NAME a line, no quoting, "#" starts a comment line. A NAME alone takes the
// caller's value. Where env is nil that is an error: somebody else wrote the
// file, and which of the caller's variables enter is the caller's choice.
func ParseEnvFile(name string, data []byte, env Lookup) ([]string, error) {
	var pairs []string
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		text = strings.TrimLeft(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), " \t")
		if text == "" || text[0] == '#' {
			continue
		}
		pair, err := parseEnvLine(fmt.Sprintf("%s:%d:1", name, line), text, env)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

func parseEnvLine(where, text string, env Lookup) (pair string, err error) {
	name, _, given := cutName(text)
	if !validName(name) || strings.ContainsRune(text, 0) {
		// The line itself may be a secret: it is not repeated.
		hint := "write one NAME=VALUE a line, or a NAME alone"
		if word, _, found := strings.Cut(text, " "); found && word == "export" {
			hint = "leave out the word export: the file is no shell script, and quotes would be part of the value"
		}
		return "", bailey.NewError(bailey.Invalid, where+": not NAME=VALUE", hint)
	}
	if given {
		return text, nil
	}
	if env == nil {
		return "", bailey.NewError(bailey.Invalid,
			fmt.Sprintf("%s: %s has no value, and a file of the workspace, which the sandbox can write, does not choose from your variables", where, name),
			"leave the line out, and pass --env "+name)
	}
	v, ok := env(name)
	if !ok {
		return "", bailey.NewError(bailey.Invalid, fmt.Sprintf("%s: variable %s is not set here", where, name), "set it, or write "+name+"=VALUE")
	}
	return name + "=" + v, nil
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
