package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey/internal/posture"
	"github.com/bailey-dev/bailey/internal/sandbox"
)

// TaskConfig is what Task is given.
type TaskConfig struct {
	UID    int                                                                   // of the caller
	PID    int                                                                   // of this process, from which the sandbox descends
	Inside string                                                                // where the copy is inside
	Masked []string                                                              // names of programs that may not be used, wherever the system has them
	SetIDs []string                                                              // setuid and setgid files that the host has where the sandbox sees its system
	Start  func(ctx context.Context, dir string, argv []string) (Sandbox, error) // starts the sandbox of a check with another command
	Temp   func() (dir string, remove func() error, e error)
	Begin  func(layer string) // told before each look
	Done   func(Row)          // told after it
}

// Task starts the sandbox of a task with a program in the agent's place that
// looks about, and says of each thing that is promised whether it is so.
func Task(ctx context.Context, c TaskConfig) ([]Row, error) {
	d := New(Config{UID: c.UID, PID: c.PID, Begin: c.Begin, Done: c.Done})
	dir, remove, err := c.Temp()
	if err != nil {
		return nil, fmt.Errorf("make a workspace: %w", err)
	}
	d.begin("task sandbox")
	seen, err := c.look(ctx, dir)
	if err := errors.Join(ctx.Err(), remove()); err != nil {
		return nil, err
	}
	if err != nil {
		d.add("gvisor", failed(err))
		return d.rows, nil
	}
	d.add("gvisor", Row{Status: OK, Detail: "the sandbox of a task was started, with a probe in the agent's place"})
	for _, r := range seen.rows(c) {
		d.add(r.Layer, r)
	}
	return d.rows, nil
}

// taskLook is what the probe said, and what the host shows of it.
type taskLook struct {
	report posture.Report
	host   []posture.Posture
	said   map[string][]string // lines of the probe by their first word
}

// taskProbe prints what it finds, one thing a line, and then becomes what tells
// the posture. Its arguments are files, "--", and names of programs. To look for
// setuid files inside would take a minute; the host knows which there are.
const taskProbe = `
while [ "$1" != -- ]; do
  { [ -u "$1" ] || [ -g "$1" ]; } && echo "setid $1"
  shift
done
shift
for d in /bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin; do
  [ -L "$d" ] && continue
  for n in "$@"; do
    p="$d/$n"
    [ -e "$p" ] || [ -L "$p" ] || continue
    echo "masked $p"
    { read -r line < "$p"; } 2>/dev/null && echo "readable $p"
    [ -r "$p" ] && echo "readable $p"
    [ -x "$p" ] && echo "executable $p"
  done
done
for f in /x /usr/x /usr/bin/x /etc/x /opt/x; do (: > "$f") 2>/dev/null && echo "written $f"; done
while read -r name rest; do case "$name" in *:*) echo "interface ${name%%:*}";; esac; done < /proc/net/dev
exec ` + sandbox.FirstPath + ` ` + posture.Arg + `
`

// mostSaid bounds the lines of a probe that are kept.
const mostSaid = 10_000

func (c TaskConfig) look(ctx context.Context, dir string) (taskLook, error) {
	seen := taskLook{said: map[string][]string{}}
	argv := slices.Concat([]string{"sh", "-c", taskProbe, "probe"}, c.SetIDs, []string{"--"}, c.Masked)
	sb, err := c.Start(ctx, dir, argv)
	if err != nil {
		return seen, err
	}
	if err = seen.read(sb); err == nil {
		seen.host, err = posture.Reader{}.Run(c.PID)
	}
	code, stderr, ended := sb.Finish()
	switch {
	case ended != nil:
		return seen, ended
	case err != nil:
		return seen, err
	case code != 0:
		return seen, fmt.Errorf("the sandbox ended with code %d: %s", code, strings.TrimSpace(stderr))
	}
	return seen, nil
}

// read reads the probe's lines, and the posture behind them.
func (s *taskLook) read(from io.Reader) error {
	lines := bufio.NewReader(io.LimitReader(from, 4*MaxReport))
	for range mostSaid {
		line, err := lines.ReadString('\n')
		if err != nil {
			return errNoReport
		}
		if strings.HasPrefix(line, "{") {
			if err := json.Unmarshal([]byte(line), &s.report); err != nil {
				return fmt.Errorf("%w: %w", errNoReport, err)
			}
			return nil
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.said[word] = append(s.said[word], rest)
	}
	return errNoReport
}

// rows judges what was seen.
func (s *taskLook) rows(c TaskConfig) []Row {
	self, first := s.report.Self, s.report.First
	list := []Row{
		judge("network", slices.Equal(s.said["interface"], []string{"lo"}), "none: the only interface is lo", "interfaces: "+strings.Join(s.said["interface"], ", ")),
		judge("root", len(s.said["written"]) == 0 && s.isReadOnly("/"), "read-only", "it can be written to: "+few(append(s.said["written"], s.mount("/")))),
		judge("capabilities", self.Caps == (posture.Caps{}) && first.Caps == (posture.Caps{}), "none, in no set", fmt.Sprintf("%+v", self.Caps)),
		judge("privileges", self.NoNewPrivs && first.NoNewPrivs, "no new ones: the flag is set", "no-new-privileges is not set"),
		judge("seccomp", self.Seccomp == 2 && first.Seccomp == 2, "a filter is set", fmt.Sprintf("mode %d", self.Seccomp)),
		s.id(c),
		s.mounts(c),
		s.descriptors(),
		judge("setuid", len(s.said["setid"]) == 0, fmt.Sprintf("none of the host's %d setuid and setgid files is one inside", len(c.SetIDs)), few(s.said["setid"])),
		s.masked(),
	}
	return list
}

func judge(layer string, holds bool, good, bad string) Row {
	if holds {
		return Row{Layer: layer, Status: OK, Detail: good}
	}
	return Row{Layer: layer, Status: Missing, Detail: bad, Fix: "please report this, with the output of bailey doctor --task --json"}
}

// few is a list for a row.
func few(list []string) string {
	const most = 6
	if len(list) > most {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, ", ")
}

// id tells the ids inside and out. Inside it is never 0; outside, of a root
// caller, it is nobody's.
func (s *taskLook) id(c TaskConfig) Row {
	inside, outside := -1, -1
	if len(s.report.Self.UIDs) > 0 {
		inside = s.report.Self.UIDs[0]
	}
	for _, p := range s.host {
		if p.Role == posture.Sentry && len(p.UIDs) > 0 {
			outside = p.UIDs[0]
		}
	}
	detail := fmt.Sprintf("%d inside, %d on the host", inside, outside)
	switch {
	case inside <= 0 || outside <= 0:
		return judge("id", false, "", detail)
	case outside == c.UID:
		return Row{Layer: "id", Status: OK, Detail: detail + ": the caller's own"}
	}
	return Row{Layer: "id", Status: OK, Detail: detail + ": nobody's"}
}

// ownMounts are the writable places that are memory, or the kernel's.
func ownMounts() []string {
	return []string{"/dev", "/dev/pts", "/dev/shm", "/home/agent", "/proc", "/run", "/tmp", "/var/tmp"}
}

// mounts looks for what of the host can be written to.
func (s *taskLook) mounts(c TaskConfig) Row {
	var writable []string
	for _, m := range s.report.Self.Mounts {
		f := strings.Fields(m) // POINT SOURCE FLAGS
		if len(f) != 3 || slices.Contains(ownMounts(), f[0]) || strings.HasPrefix(f[2], "ro") {
			continue
		}
		writable = append(writable, f[0])
	}
	return judge("mounts", slices.Equal(writable, []string{c.Inside}), "one of the host can be written to: the copy, at "+c.Inside, "of the host can be written to: "+few(writable))
}

func (s *taskLook) mount(point string) string {
	for _, m := range s.report.Self.Mounts {
		if strings.HasPrefix(m, point+" ") {
			return m
		}
	}
	return point + " is not mounted"
}

func (s *taskLook) isReadOnly(point string) bool {
	f := strings.Fields(s.mount(point))
	return len(f) == 3 && strings.HasPrefix(f[2], "ro")
}

// descriptors looks at what the agent holds: pipes to process 1, which alone has
// what leads out.
func (s *taskLook) descriptors() Row {
	var other []string
	for _, fd := range s.report.Self.FDs {
		if fd != "pipe" && fd != "host:/dev/null" && !strings.HasPrefix(fd, "anon:event") {
			other = append(other, fd)
		}
	}
	return judge("descriptors", len(other) == 0, "one of the host, the wire, which process 1 holds (an agent's model has a second one like it); the agent itself has pipes to process 1", "the agent has "+few(other))
}

func (s *taskLook) masked() Row {
	open := slices.Concat(s.said["readable"], s.said["executable"])
	slices.Sort(open)
	open = slices.Compact(open)
	return judge("masked", len(open) == 0,
		fmt.Sprintf("%d programs of the system (package managers, su, sudo and their like) can be neither read nor run", len(s.said["masked"])), "can be used: "+few(open))
}
