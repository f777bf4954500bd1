package gitdata_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/gitdata"
	"github.com/bailey-dev/bailey/internal/linux/beneath"
)

// storeBench is a repository with some history, and its store.
type storeBench struct {
	dir, store string
	hash       int
}

func newStoreBench(t *testing.T, format string) *storeBench {
	t.Helper()
	b := &storeBench{dir: t.TempDir(), hash: map[string]int{"sha1": 20, "sha256": 32}[format]}
	b.store = b.dir + "/.git/objects"
	b.sh(t, "git init -q -b main --object-format="+format+" .")
	for i := range 4 {
		text := strings.Repeat(fmt.Sprintf("line %d of much text\n", i), 10) + strings.Repeat("that stays as it is\n", 200)
		b.write(t, "file", []byte(text))
		b.write(t, fmt.Sprintf("d/%d", i), []byte(text+text))
		b.sh(t, "git add . && git commit -q -m 'commit "+fmt.Sprint(i)+"'")
	}
	b.sh(t, "git tag -a -m tag v1")
	return b
}

func (b *storeBench) write(t *testing.T, name string, data []byte) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b *storeBench) sh(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// after marks the store, runs the script, and returns what is found.
func (b *storeBench) after(t *testing.T, script string) []gitdata.Fault {
	t.Helper()
	open := func() *os.File {
		dir, err := beneath.Dir(b.store)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dir.Close() })
		return dir
	}
	tick(t)
	m := gitdata.MarkStore(open())
	tick(t)
	b.sh(t, script)
	dir := open()
	return m.Verify(t.Context(), dir, b.hash)
}

// tick waits until the clock of files' stamps has gone on: what was made before
// is older then.
func tick(t *testing.T) {
	t.Helper()
	for was := beneath.Clock(); !beneath.Clock().After(was); {
		time.Sleep(time.Millisecond)
	}
}

// said is each fault as a word and a path, with digits of names left out.
func said(faults []gitdata.Fault) []string {
	list := []string{}
	for _, f := range faults {
		word := []string{"unverified", "forged", "derived"}[f.Kind]
		name := f.Path
		if i := strings.LastIndex(name, "/pack-"); i >= 0 {
			name = name[:i] + "/pack" + filepath.Ext(name)
		}
		list = append(list, word+" "+name)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestStoreMark_BelievesGit: what git writes is what its names say, whatever it
// was told to do.
func TestStoreMark_BelievesGit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, script string
		want                 []string
	}{
		{"nothing", "", "true", nil},
		{"commit", "", "echo x > x; git add .; git commit -q -m x", nil},
		{"gc", "", "git gc -q", nil},
		{"gc without a graph", "", "git -c gc.writeCommitGraph=false gc -q --aggressive --prune=now", nil},
		{"repack", "git gc -q", "echo x > x; git add .; git commit -q -m x; git repack -q -ad", nil},
		{"repack of much", "", "git -c pack.depth=4000 -c pack.window=50 repack -q -adf", nil},
		{"by hash", "", "git -c repack.useDeltaBaseOffset=false repack -q -adf", nil},
		{"old index", "", "git -c pack.indexVersion=1 repack -q -ad", nil},
		{"orders", "git config pack.writeReverseIndex true", "git repack -q -ad", nil},
		{"cruft", "", "git commit -q --amend -m other; git reflog expire --expire=now --all; git gc -q --cruft", nil},
		{"an object again", "git gc -q", "git show HEAD:file > y; git add y; test -n \"$(find .git/objects/pack -name '*.pack' -newer .git/refs)\" || true", nil},
		{"fetch", "git clone -q . ../other; (cd ../other; git config user.name a; git config user.email a@b; for i in $(seq 200); do echo $i > f$i; done; git add .; git commit -q -m more)", "git fetch -q ../other main", nil},
		{"a large file", "", "head -c 3000000 /dev/urandom > large; git add large; git -c core.bigFileThreshold=1m hash-object -w large", nil},
		{"an index over packs", "git repack -q -d", "git multi-pack-index write", []string{"derived pack/multi-pack-index"}},
		{"a graph", "", "git commit-graph write --reachable", []string{"derived info/commit-graph"}},
		{"a map", "", "git repack -q -adb", []string{"derived pack/pack.bitmap"}},
		{"a pack under an index over packs", "git repack -q -d; git multi-pack-index write", "cd .git/objects/pack; for f in *.idx; do cp $f x; mv -f x $f; done", []string{"derived pack/multi-pack-index"}},
	} {
		for i, format := range []string{"sha1", "sha256"} {
			if i > 0 && !slices.Contains([]string{"gc", "commit", "by hash", "orders"}, c.name) {
				continue
			}
			t.Run(c.name+" "+format, func(t *testing.T) {
				t.Parallel()
				b := newStoreBench(t, format)
				b.sh(t, c.before)
				got := said(b.after(t, c.script))
				if !strings.Contains(strings.Join(c.want, ""), "graph") {
					got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "derived info/commit-graph") })
				}
				if diff := cmp.Diff(append([]string{}, c.want...), got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// forgedPack writes a pack whose index gives evil the name of good.
func (b *storeBench) forgedPack(t *testing.T, folder, good, evil string) string {
	t.Helper()
	pack, index := forge(good, evil)
	name := filepath.Join(folder, "pack-"+hex.EncodeToString(pack[len(pack)-20:]))
	b.write(t, name+".pack", pack)
	b.write(t, name+".idx", index)
	return name
}

func forge(good, evil string) (pack, index []byte) {
	name := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(good), good))
	pack = []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01")
	n := len(evil)
	c := byte(3<<4 | n&15)
	for n >>= 4; n > 0; n >>= 7 {
		pack, c = append(pack, c|0x80), byte(n&0x7f)
	}
	pack = append(pack, c)
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write([]byte(evil))
	_ = w.Close()
	pack = append(pack, z.Bytes()...)
	sum := sha1.Sum(pack)
	pack = append(pack, sum[:]...)
	index = []byte("\xfftOc\x00\x00\x00\x02")
	for i := range 256 {
		count := uint32(0)
		if i >= int(name[0]) {
			count = 1
		}
		index = binary.BigEndian.AppendUint32(index, count)
	}
	index = append(append(index, name[:]...), 0, 0, 0, 0, 0, 0, 0, 12)
	index = append(index, sum[:]...)
	end := sha1.Sum(index)
	return pack, append(index, end[:]...)
}

// TestStoreMark_FindsWhatIsForged: each of them git believes, or it is nothing
// that git writes.
func TestStoreMark_FindsWhatIsForged(t *testing.T) {
	t.Parallel()
	const loose = `id=$(git rev-parse HEAD:file); f=.git/objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-); `
	for _, c := range []struct {
		name, before, script string
		believed             string // a command that says evil
		want                 []string
	}{
		{"a pack", "", "cp forged/* .git/objects/pack/", "git cat-file blob $good", []string{"forged pack/pack.idx"}},
		{"a pack under another name", "", "for f in forged/*; do cp $f .git/objects/pack/x.${f##*.}; done", "git cat-file blob $good", []string{"forged pack/x.idx"}},
		{"a folder of packs that is older", "", "mv forged/* older/; cp -p .git/objects/pack/* older/ 2>/dev/null || true; mv .git/objects/pack was; mv older .git/objects/pack", "git cat-file blob $good", []string{"forged pack/pack.idx"}},
		{"a store that is older", "mkdir other; cp -r .git/objects other/; cp forged/* other/objects/pack/", "mv .git/objects was; mv other/objects .git/objects", "git cat-file blob $good", []string{"forged pack/pack.idx"}},
		{"a loose object", "", loose + `chmod u+w $f; cp evil.loose $f`, "git cat-file blob HEAD:file", []string{"forged loose"}},
		{"a loose folder that is older", loose + `cp -r $(dirname $f) dir; chmod -R u+w dir; cp evil.loose dir/$(basename $f)`, loose + `mv $(dirname $f) was; mv dir $(dirname $f)`, "git cat-file blob HEAD:file", []string{"forged loose"}},
		{"a link", "", loose + `mv $f real; ln -s ../../../real $f`, "", []string{"forged loose"}},
		{"no object", "", "mkdir -p .git/objects/aa; echo x > .git/objects/aa/" + strings.Repeat("a", 38), "", []string{"forged loose"}},
		{"a pack with the index it had", "git repack -q -ad", `f=$(ls .git/objects/pack/*.pack); chmod u+w $f; printf x | dd of=$f bs=1 seek=40 conv=notrunc status=none`, "", []string{"forged pack/pack.pack"}},
		{"an order", "git config pack.writeReverseIndex true; git repack -q -ad", `f=$(ls .git/objects/pack/*.rev); chmod u+w $f; printf x | dd of=$f bs=1 seek=14 conv=notrunc status=none`, "", []string{"forged pack/pack.rev"}},
		{"alternates", "", "mkdir -p store/pack; cp forged/* store/pack/; echo $PWD/store > .git/objects/info/alternates", "git cat-file blob $good", []string{"forged info/alternates"}},
		{"half a pack", "git repack -q -ad", `for s in pack idx; do f=$(ls .git/objects/pack/pack-*.$s); head -c 500 $f > .git/objects/pack/x.$s; done`, "", []string{"forged pack/x.idx"}},
		{"an index for another pack", "git repack -q -ad", `cp .git/objects/pack/pack-*.idx .git/objects/pack/x.idx; cp forged/*.pack .git/objects/pack/x.pack`, "", []string{"forged pack/x.idx"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newStoreBench(t, "sha1")
			b.forgedPack(t, "forged", "good\n", "evil\n")
			b.sh(t, "mkdir older; git show HEAD:file > good.file")
			var z bytes.Buffer
			w := zlib.NewWriter(&z)
			_, _ = w.Write([]byte("blob 5\x00evil\n"))
			_ = w.Close()
			b.write(t, "evil.loose", z.Bytes())
			b.sh(t, c.before)
			got := said(b.after(t, c.script))
			for i, s := range got {
				if word, name, _ := strings.Cut(s, " "); len(name) == 41 {
					got[i] = word + " loose"
				}
			}
			if diff := cmp.Diff(c.want, slices.Compact(got)); diff != "" {
				t.Error(diff)
			}
			if c.believed != "" {
				if out := b.sh(t, "good="+gitdata.HashObject("blob", []byte("good\n"))+"; "+c.believed); out != "evil" {
					t.Errorf("git is not deceived: %s", out)
				}
			}
		})
	}
}

// TestStoreMark_TakesItsTime: what there is no time for is not verified, and
// says so.
func TestStoreMark_TakesItsTime(t *testing.T) {
	t.Parallel()
	b := newStoreBench(t, "sha1")
	b.sh(t, "git repack -q -ad; echo x > x; git add x")
	dir, err := beneath.Dir(b.store)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, f := range (gitdata.StoreMark{}).Verify(ctx, dir, b.hash) {
		if f.Kind == gitdata.Forged {
			t.Errorf("%s: %s", f.Path, f.What)
		}
	}
	if got := said((gitdata.StoreMark{}).Verify(ctx, dir, b.hash)); !slices.Contains(got, "unverified pack/pack.idx") {
		t.Errorf("without time: %q", got)
	}
	if got := said((gitdata.StoreMark{}).Verify(t.Context(), dir, b.hash)); len(got) > 0 {
		t.Errorf("with time: %q", got)
	}
}
