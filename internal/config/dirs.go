package config

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/bailey-dev/bailey"
)

// Dirs are the folders that bailey itself uses on the host. None of them is
// ever visible in a sandbox, and no workspace may hold or lie in one.
type Dirs struct {
	Config  string // $XDG_CONFIG_HOME/bailey
	Data    string // $XDG_DATA_HOME/bailey
	State   string // $XDG_STATE_HOME/bailey
	Runtime string // $XDG_RUNTIME_DIR/bailey, /run/bailey for root
}

// All lists the folders.
func (d Dirs) All() []string { return []string{d.Config, d.Data, d.State, d.Runtime} }

// Lookup returns the value of an environment variable and whether it is set.
type Lookup func(name string) (string, bool)

// Environment is the process's own environment.
func Environment() Lookup { return os.LookupEnv }

// Pairs is the process's own environment as NAME=VALUE, for a program of the
// user's that gets it.
func Pairs() []string { return os.Environ() }

// Get returns a variable's value, or "" if it is not set.
func (l Lookup) Get(name string) string {
	v, _ := l(name)
	return v
}

// FindDirs returns bailey's folders for a user (XDG Base Directory
// Specification 0.8). Relative values are ignored, as the specification says.
func FindDirs(env Lookup, uid int, home string) Dirs {
	under := func(name, fallback string) string {
		if v := env.Get(name); filepath.IsAbs(v) {
			return filepath.Join(v, "bailey")
		}
		return filepath.Join(home, fallback, "bailey")
	}
	return Dirs{
		Config:  under("XDG_CONFIG_HOME", ".config"),
		Data:    under("XDG_DATA_HOME", ".local/share"),
		State:   under("XDG_STATE_HOME", ".local/state"),
		Runtime: runtimeDir(env, uid),
	}
}

func runtimeDir(env Lookup, uid int) string {
	if v := env.Get("XDG_RUNTIME_DIR"); filepath.IsAbs(v) {
		return filepath.Join(v, "bailey")
	}
	if uid == 0 {
		return "/run/bailey"
	}
	run := "/run/user/" + strconv.Itoa(uid)
	if fi, err := os.Stat(run); err == nil && fi.IsDir() {
		return filepath.Join(run, "bailey")
	}
	return filepath.Join(TempDir(env), "bailey-"+strconv.Itoa(uid))
}

// TempDir is the folder for temporary files. A relative TMPDIR is ignored as a
// relative XDG folder is: it names another place in each folder, and one of
// them is a workspace.
func TempDir(env Lookup) string {
	if v := env.Get("TMPDIR"); filepath.IsAbs(v) {
		return v
	}
	return "/tmp"
}

// ExpandEnv turns the values of --env into NAME=VALUE pairs: "NAME=VALUE" as
// it stands, "NAME" with the caller's value. A name that is not set is an
// error, since the agent would fail later and further away.
func ExpandEnv(specs []string, env Lookup) ([]string, error) {
	pairs := make([]string, 0, len(specs))
	for _, s := range specs {
		name, _, given := cutName(s)
		if !validName(name) {
			return nil, bailey.NewError(bailey.Invalid, "--env: "+strconv.Quote(name)+" is not a variable's name", "use --env NAME or --env NAME=VALUE")
		}
		if given {
			pairs = append(pairs, s)
			continue
		}
		v, ok := env(name)
		if !ok {
			return nil, bailey.NewError(bailey.Invalid, "--env "+name+": the variable is not set here", "set it, or write --env "+name+"=VALUE")
		}
		pairs = append(pairs, name+"="+v)
	}
	return pairs, nil
}
