package sandboxd

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey/internal/wire"
)

// defaultPath is searched when the environment has no PATH (execvp(3)).
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// failure is why a command did not start.
type failure struct {
	kind    wire.FailKind
	message string
}

// lookUp finds the file that argv[0] names, as execvp(3) does: with a slash
// relative to dir, otherwise in the PATH of env. It does not say whether the
// file can be executed beyond its mode bits; exec will.
func lookUp(x *wire.Exec) (string, *failure) {
	name := x.Argv[0]
	if strings.Contains(name, "/") {
		return under(x.Dir, name), nil
	}
	seen := ""
	for dir := range strings.SplitSeq(searchPath(x.Env), ":") {
		file := under(x.Dir, path.Join(dir, name))
		switch executable(file) {
		case yes:
			return file, nil
		case no:
			seen = file
		case absent:
		}
	}
	if seen != "" {
		return "", &failure{wire.FailNotExecutable, seen + " is not executable"}
	}
	return "", &failure{wire.FailNotFound, "command " + name + " not found in the sandbox's PATH"}
}

func under(dir, file string) string {
	if path.IsAbs(file) {
		return file
	}
	return path.Join(dir, file)
}

func searchPath(env []string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			return v
		}
	}
	return defaultPath
}

type answer uint8

const (
	absent answer = iota
	no
	yes
)

func executable(file string) answer {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		if errors.Is(err, unix.EACCES) {
			return no
		}
		return absent
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
		return yes
	}
	return no
}

// explain turns the error of a fork or exec into what the host is told.
func explain(err error, file, dir string) *failure {
	var st unix.Stat_t
	if derr := unix.Stat(dir, &st); derr != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &failure{wire.FailOther, "working directory " + dir + " does not exist in the sandbox"}
	}
	switch {
	case errors.Is(err, unix.ENOENT) && executable(file) == absent:
		return &failure{wire.FailNotFound, file + " does not exist in the sandbox"}
	case errors.Is(err, unix.ENOENT):
		return &failure{wire.FailNotFound, "the interpreter of " + file + " does not exist in the sandbox"}
	case errors.Is(err, unix.ENOTDIR):
		return &failure{wire.FailNotFound, file + " does not exist in the sandbox"}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EISDIR):
		return &failure{wire.FailNotExecutable, file + " is not executable"}
	case errors.Is(err, unix.ENOEXEC):
		return &failure{wire.FailNotExecutable, file + " is neither a program for this machine nor a script with a #! line"}
	case errors.Is(err, unix.E2BIG):
		return &failure{wire.FailNotExecutable, "the arguments and environment of " + file + " are too long"}
	case errors.Is(err, unix.EAGAIN):
		return &failure{wire.FailOther, "no further process may be started in the sandbox: the limit of processes is reached"}
	}
	return &failure{wire.FailOther, "start " + file + ": " + err.Error()}
}
