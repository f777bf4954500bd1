package workspace_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/workspace"
)

// A folder that is held is the one that is opened, whatever its path is by
// then, and whatever lies where it was.
func TestOpen_IsOfTheFolderThatIsHeld(t *testing.T) {
	base := yard(t)
	write(t, base+"/mine/file", "")
	write(t, base+"/secret/key", "")
	t.Chdir(base + "/mine")
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(base+from, base+to); err != nil {
			t.Fatal(err)
		}
	}
	rename("/mine", "/away")
	link(t, "secret", base+"/mine")
	here, err := workspace.Here()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if here.Path() != base+"/away" {
		t.Fatalf("here is %s", here.Path())
	}
	r := request(base + "/mine") // as $PWD says
	r.At = here
	w, err := workspace.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	if w.Path != base+"/away" || w.Mounts[0].Source != base+"/away" || w.Mounts[0].Is == (bailey.FileID{}) {
		t.Errorf("%s %+v", w.Path, w.Mounts)
	}
	// And from here on another in its place is not taken for it.
	rename("/away", "/further")
	rename("/secret", "/away")
	if _, err := workspace.Open(r); bailey.KindOf(err) != bailey.Invalid || !strings.Contains(err.Error(), base+"/away") {
		t.Errorf("another folder in its place: %v", err)
	}
	if _, err := workspace.Open(request(base + "/further")); err != nil {
		t.Errorf("twin: %v", err)
	}
}

func TestHere_OfARemovedFolder(t *testing.T) {
	base := yard(t)
	write(t, base+"/d/file", "")
	t.Chdir(base + "/d")
	if p, err := workspace.Here(); err != nil || p.Path() != base+"/d" {
		t.Fatalf("twin: %v", err)
	}
	if err := os.RemoveAll(base + "/d"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(base+"/d", 0o755); err != nil { // another
		t.Fatal(err)
	}
	if _, err := workspace.Here(); bailey.KindOf(err) != bailey.Invalid {
		t.Errorf("a removed folder: %v", err)
	}
}

// Every mount says what it is of: the git folders too.
func TestOpen_NamesWhatItMounts(t *testing.T) {
	t.Parallel()
	dir := repository(t, yard(t)+"/proj")
	for _, m := range open(t, dir).Mounts {
		if m.Is == (bailey.FileID{}) {
			t.Errorf("%s: nothing says what it is", m.Source)
		}
	}
}
