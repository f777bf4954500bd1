package netlog_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/netlog"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/testkit/tier"
)

const box = bailey.SandboxID("sbx_0123456789abcdef")

func decision(n int, verdict, proto string) netlog.Record {
	return netlog.Record{
		Time: time.Unix(int64(n), 0).UTC(), Sandbox: "box", ID: box, Name: fmt.Sprintf("h%d.test", n),
		Verdict: verdict, Proto: proto, Message: strings.Repeat("m", 200),
	}
}

func writer(t *testing.T, state string, began time.Time) *netlog.Writer {
	t.Helper()
	w := netlog.NewWriter(state, os.Getuid(), box, func() time.Time { return began }, func(err error) { t.Errorf("not written: %v", err) })
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func read(t *testing.T, state string, since time.Time) []netlog.Record {
	t.Helper()
	r, err := netlog.OpenReader(state, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var out []netlog.Record
	if err := r.Read(since, func(rec netlog.Record) error { out = append(out, rec); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func namesOf(list []netlog.Record) string {
	var names []string
	for _, r := range list {
		names = append(names, strings.TrimSuffix(r.Name, ".test"))
	}
	return strings.Join(names, " ")
}

// What was written by runs that overlap is read in the order of time, and is
// the user's alone.
func TestRead_IsInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state", "bailey")
	one, two := writer(t, state, time.Unix(1, 0)), writer(t, state, time.Unix(2, 0))
	one.Write(decision(1, "allow", "tls"))
	two.Write(decision(2, "deny", "dns"))
	one.Write(decision(3, "allow", "dns"))
	two.Write(decision(4, "allow", "tls"))
	one.Write(decision(5, "ask", "tls"))
	if got := namesOf(read(t, state, time.Time{})); got != "h1 h2 h3 h4 h5" {
		t.Errorf("read %s", got)
	}
	if got := namesOf(read(t, state, time.Unix(4, 0))); got != "h4 h5" {
		t.Errorf("since: read %s", got)
	}
	files, err := filepath.Glob(netlog.Dir(state) + "/*")
	if err != nil || len(files) != 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for path, want := range map[string]os.FileMode{files[0]: 0o600, netlog.Dir(state): 0o700} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
}

// A177: the record of a run has an end, and a flood of refusals takes no place
// from what was allowed.
func TestWriter_IsBounded(t *testing.T) {
	t.Parallel()
	t.Run("A177", boundedRecord)
}

func boundedRecord(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	w := writer(t, state, time.Unix(0, 0))
	w.Write(decision(0, "allow", "tls"))
	long := decision(1, "deny", "tls")
	long.Message = strings.Repeat("x", 32<<10)
	const flood = 1000 // 32 MB
	for i := range flood {
		long.Time = time.Unix(int64(1+i), 0)
		w.Write(long)
	}
	files, err := os.ReadDir(netlog.Dir(state))
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, f := range files {
		fi, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += fi.Size()
	}
	if total > 9<<20 || len(files) != 3 {
		t.Errorf("%d bytes in %d files", total, len(files))
	}
	got := read(t, state, time.Time{})
	if got[0].Name != "h0.test" || got[0].Verdict != "allow" {
		t.Errorf("the first is %+v", got[0])
	}
	if last := got[len(got)-1]; !last.Time.Equal(time.Unix(flood, 0)) { // the latest are kept
		t.Errorf("the last is of %v", last.Time)
	}
}

// The folder has bounds too: the oldest runs go, and never one that is written.
func TestWriter_PrunesOldRuns(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	held := writer(t, state, time.Unix(1, 0))
	held.Write(decision(1, "deny", "tls"))
	dir := netlog.Dir(state)
	past := time.Unix(1000, 0)
	name := func(i int) string {
		return filepath.Join(dir, time.Unix(int64(2+i), 0).UTC().Format("20060102T150405.000Z")+"-sbx_0123456789abcdef-deny.1.jsonl")
	}
	for i := range 1100 {
		if err := os.WriteFile(name(i), []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mine := filepath.Join(dir, "notes.txt")
	for _, path := range []string{mine, filepath.Join(dir, "20200101T000000.000Z-sbx_0123456789abcdef-deny.1.jsonl.bak")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(dir + "/*")
	for _, f := range files {
		if err := os.Chtimes(f, past, past); err != nil {
			t.Fatal(err)
		}
	}
	w := writer(t, state, time.Now())
	w.Write(decision(2, "deny", "tls"))
	files, _ = filepath.Glob(dir + "/*.jsonl")
	if len(files) != 1000 {
		t.Errorf("%d files are left", len(files))
	}
	held.Write(decision(3, "deny", "tls"))
	if got := namesOf(read(t, state, time.Time{})); got != "h1 h3 h2" && got != "h1 h2 h3" {
		t.Errorf("read %s", got)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(name(0)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the oldest: %v", err)
	}
	if _, err := os.Stat(name(1099)); err != nil {
		t.Errorf("the latest: %v", err)
	}
}

// What is no record, whoever wrote it, costs nothing but itself.
func TestRead_PassesOverWhatIsNone(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	w := writer(t, state, time.Unix(1, 0))
	w.Write(decision(1, "deny", "tls"))
	files, _ := filepath.Glob(netlog.Dir(state) + "/*")
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("{\"time\":\"2026-\n\n[]\n" + strings.Repeat("y", 400<<10) + "\n"); err != nil {
		t.Fatal(err)
	}
	w.Write(decision(2, "deny", "tls"))
	if _, err := f.WriteString(`{"time":"2026-11-30T00:00:00Z","name":"cut"`); err != nil { // a line that is being written
		t.Fatal(err)
	}
	_ = f.Close()
	if got := namesOf(read(t, state, time.Time{})); got != "h1 h2" {
		t.Errorf("read %s", got)
	}
}

// A178: a full disk is told once, costs what it costs, and what was lost is on
// record when there is room again.
func TestWriter_FullDisk(t *testing.T) {
	t.Parallel()
	t.Run("A178", fullDisk)
}

func fullDisk(t *testing.T) {
	t.Parallel()
	tier.Root(t) // it mounts
	state := t.TempDir()
	if err := unix.Mount("none", state, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) })
	ballast := filepath.Join(state, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 48<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	var told []error
	w := netlog.NewWriter(state, 0, box, time.Now, func(err error) { told = append(told, err) })
	const many = 200 // at 400 bytes, more than a page or three
	for i := range many {
		w.Write(decision(i, "deny", "tls"))
	}
	if len(told) != 1 || !errors.Is(told[0], unix.ENOSPC) {
		t.Fatalf("told %v", told)
	}
	kept := len(read(t, state, time.Time{}))
	if kept == 0 || kept == many {
		t.Fatalf("%d are kept", kept)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	w.Write(decision(many, "allow", "tls"))
	w.Write(decision(many+1, "deny", "tls"))
	got := read(t, state, time.Time{})
	want := fmt.Sprintf("%d decisions before this one could not be recorded: ", many-kept)
	i := slices.IndexFunc(got, func(r netlog.Record) bool { return strings.HasPrefix(r.Message, want) })
	if i < 0 || got[i].Reason != policy.ReasonNotRecorded || got[i].Verdict != "" || len(got) != kept+3 {
		t.Errorf("%d records of %d and 3, and none says %q: %+v", len(got), kept, want, got[max(0, len(got)-3):])
	}
	if err := w.Close(); err != nil || len(told) != 1 {
		t.Errorf("%v, told %v", err, told)
	}
}

// A folder that others can look into, or that is somebody else's, is not used.
func TestWriter_WantsAPrivateFolder(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if err := os.Mkdir(netlog.Dir(state), 0o755); err != nil {
		t.Fatal(err)
	}
	var told error
	w := netlog.NewWriter(state, os.Getuid(), box, time.Now, func(err error) { told = err })
	w.Write(decision(1, "deny", "tls"))
	if bailey.KindOf(told) != bailey.Forbidden {
		t.Errorf("written into an open folder: %v", told)
	}
	if _, err := netlog.OpenReader(state, os.Getuid()); bailey.KindOf(err) != bailey.Forbidden {
		t.Errorf("read from an open folder: %v", err)
	}
}

// Who follows sees what was written before once, and what is written after
// within a second, from runs that begin later too.
func TestFollow(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	one := writer(t, state, time.Unix(1, 0))
	one.Write(decision(1, "deny", "tls"))
	r, err := netlog.OpenReader(state, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	seen := make(chan netlog.Record, 10)
	yield := func(rec netlog.Record) error { seen <- rec; return nil }
	if err := r.Read(time.Time{}, yield); err != nil {
		t.Fatal(err)
	}
	one.Write(decision(2, "deny", "tls")) // between the two
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Follow(ctx, yield) }()
	expect := func(name string) {
		t.Helper()
		began := time.Now()
		select {
		case rec := <-seen:
			if rec.Name != name+".test" {
				t.Errorf("saw %s, want %s", rec.Name, name)
			}
			if took := time.Since(began); took > time.Second {
				t.Logf("%s took %v", name, took)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("nothing of %s", name)
		}
	}
	expect("h1")
	expect("h2")
	one.Write(decision(3, "deny", "tls"))
	expect("h3")
	writer(t, state, time.Unix(2, 0)).Write(decision(4, "allow", "tls"))
	expect("h4")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(seen) > 0 {
		t.Errorf("seen twice: %+v", <-seen)
	}
}

// A listener gets each record as it comes; one that is slow holds up nobody
// and is told what it missed.
func TestFeed(t *testing.T) {
	t.Parallel()
	var f netlog.Feed
	fast, theirs := net.Pipe()
	done := make(chan struct{})
	go func() { f.Serve(theirs); _ = theirs.Close(); close(done) }()
	lines := bufio.NewScanner(fast)
	next := func() (r netlog.Record) {
		t.Helper()
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &r) != nil {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
		return r
	}
	for f.Publish(decision(0, "deny", "tls")); ; f.Publish(decision(0, "deny", "tls")) { // until it is there
		_ = fast.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if lines.Scan() {
			break
		}
		lines = bufio.NewScanner(fast)
	}
	_ = fast.SetReadDeadline(time.Now().Add(20 * time.Second))
	f.Publish(decision(1, "deny", "tls"))
	for next().Name != "h1.test" {
	}
	const flood = 5000
	for i := range flood { // nobody reads: none of this may wait
		f.Publish(decision(2+i, "deny", "tls"))
	}
	first := next()
	f.Publish(decision(2+flood, "deny", "tls"))
	gap := next()
	for ; gap.Reason != policy.ReasonNotRecorded; gap = next() {
		first.Name = gap.Name
		f.Publish(decision(2+flood, "deny", "tls"))
	}
	if !strings.Contains(gap.Message, "records were left out here") {
		t.Errorf("after %s: %+v", first.Name, gap)
	}
	f.Close()
	for lines.Scan() {
	}
	<-done
	if f.Serve(theirs); true { // at once: it has ended
		f.Publish(decision(1, "deny", "tls"))
	}
}

// TestOf_MarksAnEstimate: what the provider did not say is no count.
func TestOf_MarksAnEstimate(t *testing.T) {
	t.Parallel()
	for estimated, want := range map[bool]string{false: "3 tokens in, 4 out", true: "3 tokens in, 4 out; estimated: the answer did not say it"} {
		e := bailey.Event{Type: bailey.EventModelCall, Model: "small", Use: &bailey.ModelUse{Input: 3, Output: 4, Estimated: estimated}}
		if r, ok := netlog.Of(e, "box", "sbx_0011223344556677"); !ok || r.Message != want {
			t.Errorf("%t: %q", estimated, r.Message)
		}
	}
}

// TestOf_NamesWhatAModelWasAskedFor: a list of models is no call of one.
func TestOf_NamesWhatAModelWasAskedFor(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{"": "model-call", bailey.AskedModels: "model-list", bailey.AskedCount: "model-count"} {
		e := bailey.Event{Type: bailey.EventModelCall, Model: "small", Use: &bailey.ModelUse{Asked: asked}}
		if r, ok := netlog.Of(e, "box", "sbx_0011223344556677"); !ok || r.Reason != want || (r.Message == "") != (asked != "") {
			t.Errorf("%q: %+v, %t", asked, r, ok)
		}
	}
}
