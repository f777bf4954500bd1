package nssdb_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/nssdb"
	"github.com/bailey-dev/bailey/internal/pki"
)

const name = "bailey root of sandbox box"

// newRoot makes a root for some hosts with names of the greatest length.
func newRoot(t *testing.T, hosts int) *x509.Certificate {
	t.Helper()
	names := []string{"a.test"}
	for i := range hosts {
		names = append(names, strings.Repeat(strings.Repeat("x", 60)+".", 3)+fmt.Sprintf("n%03d.test", i))
	}
	r, err := pki.NewRoot("box", pki.NewScope(names, nil), time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(r.DER())
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// written returns a folder with the database of a root.
func written(t *testing.T, root *x509.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	files, err := nssdb.New(dir, root, name)
	if err != nil {
		t.Fatal(err)
	}
	for f, data := range files {
		if err := os.WriteFile(filepath.Join(dir, f), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// host runs a program that .ci/deps has installed.
func host(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := host(t, program, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return out
}

// certutils returns a folder with the database of a root as certutil writes it.
func certutils(t *testing.T, root *x509.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: nil, Bytes: root.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "certutil", "-N", "-d", "sql:"+dir, "--empty-password")
	must(t, "certutil", "-A", "-d", "sql:"+dir, "-t", "C,,", "-n", name, "-i", file)
	return dir
}

// dump prints what SQLite's own library reads: whether the file is whole, the
// schema, and each row without the object's ID, by each index.
const dump = `
import re, sqlite3, sys
for name in ("cert9.db", "key4.db"):
    db = sqlite3.connect("file:%s/%s?mode=ro" % (sys.argv[1], name), uri=True)
    print(name, *db.execute("pragma integrity_check").fetchone(), *db.execute("pragma page_size").fetchone())
    schema = db.execute("select type, name, tbl_name, sql from sqlite_master").fetchall()
    for kind, name, table, sql in sorted(schema, key=str):
        print(kind, name, table, sql)
        if kind != "table":
            continue
        columns = [c[1] for c in db.execute("pragma table_info(%s)" % table)]
        for row in db.execute("select * from %s" % table).fetchall():
            values = []
            for column, value in zip(columns, row):
                if value is not None and (table == "metaData" or column != "id"):
                    known = value.hex() if isinstance(value, bytes) else re.sub("[0-9a-f]{8}_", "ID_", value)
                    if table == "metaData" and isinstance(value, bytes): known = len(value)
                    values.append((column, known))
            print(sorted(values))
        for column in ["id"] + re.findall(r"\((\w+)\)", " ".join(s[3] or "" for s in schema if s[2] == table and s[0] == "index")):
            for (value,) in db.execute("select %s from %s" % (column, table)).fetchall():
                if value is not None:
                    print(column, "finds", db.execute("select count(*) from %s where %s = ?" % (table, column), (value,)).fetchone()[0])
`

func dumped(t *testing.T, dir string) []string {
	t.Helper()
	lines := strings.Split(must(t, "/usr/bin/python3", "-c", dump, dir), "\n")
	slices.Sort(lines) // certutil's object IDs, and so its order, are random
	return lines
}

// TestNew_IsWhatCertutilWrites compares with NSS's own tool, value by value; of
// what depends on random numbers, the length.
func TestNew_IsWhatCertutilWrites(t *testing.T) {
	t.Parallel()
	for _, hosts := range []int{0, 255} { // one page, and many
		root := newRoot(t, hosts)
		if hosts > 0 && len(root.Raw) < 4*4096 {
			t.Fatalf("a root of %d bytes is no trial", len(root.Raw))
		}
		got, want := written(t, root), certutils(t, root)
		if diff := cmp.Diff(dumped(t, want), dumped(t, got)); diff != "" {
			t.Errorf("of %d hosts (-certutil's +ours):\n%s", hosts, diff)
		}
		if der := must(t, "certutil", "-L", "-d", "sql:"+got, "-n", name, "-r"); der != string(root.Raw) {
			t.Errorf("NSS reads another certificate of %d hosts: %d bytes for %d", hosts, len(der), len(root.Raw))
		}
	}
}

// trusts is certutil's list without its title.
func trusts(t *testing.T, dir string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(must(t, "certutil", "-L", "-d", "sql:"+dir)), "\n")
	return strings.Join(strings.Fields(lines[len(lines)-1]), " ")
}

// TestNew_IsTrusted asks NSS itself. The twin: without what vouches for it, it
// would be nothing that NSS goes by.
func TestNew_IsTrusted(t *testing.T) {
	t.Parallel()
	root := newRoot(t, 0)
	dir := written(t, root)
	if got := trusts(t, dir); got != name+" C,," {
		t.Errorf("trusted as %q", got)
	}
	if out, err := host(t, "certutil", "-V", "-d", "sql:"+dir, "-n", name, "-u", "L"); err != nil {
		t.Errorf("no authority for TLS: %s", out)
	}
	if out, err := host(t, "certutil", "-V", "-d", "sql:"+dir, "-n", name, "-u", "S"); err == nil {
		t.Errorf("it is good for mail: %s", out)
	}
	// Its owner can add to it: what a browser does at its first start.
	must(t, "certutil", "-S", "-d", "sql:"+dir, "-n", "another", "-s", "CN=another", "-x", "-t", "C,,", "-z", "/dev/null", "-k", "ec", "-q", "nistp256")
	if got := must(t, "certutil", "-L", "-d", "sql:"+dir); !strings.Contains(got, "another") || !strings.Contains(got, name) {
		t.Errorf("what was added: %s", got)
	}
	files, err := nssdb.New(dir, root, name)
	if err != nil {
		t.Fatal(err)
	}
	forged := t.TempDir()
	at := bytes.Index(files["key4.db"], []byte("sig_cert_00000002_ce536358")) + len("sig_cert_00000002_ce536358") + 130
	files["key4.db"][at] ^= 1
	for f, data := range maps.All(files) {
		if err := os.WriteFile(filepath.Join(forged, f), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := trusts(t, forged); got == name+" C,," {
		t.Errorf("twin: NSS does not look at what vouches for it: %q", got)
	}
}

func BenchmarkNew(b *testing.B) {
	r, err := pki.NewRoot("box", pki.NewScope([]string{"a.test"}, nil), time.Now(), time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	cert, err := x509.ParseCertificate(r.DER())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := nssdb.New("/home/agent/.pki/nssdb", cert, name); err != nil {
			b.Fatal(err)
		}
	}
}
