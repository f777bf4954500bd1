package rootfs_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pavlo-v-chernykh/keystore-go/v4"

	"github.com/bailey-dev/bailey/internal/pki"
	"github.com/bailey-dev/bailey/internal/rootfs"
)

func root(t *testing.T, sandbox string) *pki.Root {
	t.Helper()
	r, err := pki.NewRoot(sandbox, pki.NewScope([]string{"a.test"}, nil), time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fileOf(p rootfs.Plan, path string) []byte {
	for _, f := range p.Files {
		if f.Path == path {
			return f.Data
		}
	}
	return nil
}

func debian(t *testing.T) map[string]string {
	t.Helper()
	m := merged()
	delete(m, "etc/ssl/certs/a.pem")
	maps.Copy(m, map[string]string{
		"usr/share/ca-certificates/mozilla/X.crt": "x",
		"etc/ssl/certs/X.pem":                     "-> /usr/share/ca-certificates/mozilla/X.crt",
		"etc/ssl/certs/0123abcd.0":                "-> X.pem",
		"etc/ssl/certs/own.pem":                   "own",
		"etc/ssl/certs/secret.pem":                "!0600 secret",
		"etc/ssl/certs/ca-certificates.crt":       string(root(t, "hosts").PEM()),
		"etc/ssl/certs/java/cacerts":              "jks",
	})
	return m
}

func TestFromHost_TrustsItsRoot(t *testing.T) {
	t.Parallel()
	own := root(t, "box")
	h := host(machine(t, debian(t)))
	h.Root = own.DER()
	p := plan(t, h)
	if slices.Contains(mounts(p), "/etc/ssl/certs") {
		t.Error("the host's folder is mounted")
	}
	got := links(p.Links)
	for _, want := range []string{
		"/etc/ssl/certs/X.pem -> /usr/share/ca-certificates/mozilla/X.crt", "/etc/ssl/certs/0123abcd.0 -> X.pem",
		"/etc/ssl/certs/ca-certificates.crt -> /etc/ssl/bailey/roots.pem", "/etc/ssl/certs/java/cacerts -> /etc/ssl/bailey/cacerts",
		"/etc/ssl/certs/f34e7aef.0 -> /etc/ssl/bailey/root.pem", // openssl x509 -subject_hash
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no link %s in %q", want, got)
		}
	}
	if string(fileOf(p, "/etc/ssl/certs/own.pem")) != "own" || fileOf(p, "/etc/ssl/certs/secret.pem") != nil {
		t.Error("files are not copied as far as everybody may read them")
	}
	if !bytes.Equal(fileOf(p, "/etc/ssl/bailey/root.pem"), own.PEM()) {
		t.Error("the root is not there alone")
	}
	pool := x509.NewCertPool()
	if bundle := fileOf(p, "/etc/ssl/bailey/roots.pem"); !pool.AppendCertsFromPEM(bundle) || bytes.Count(bundle, []byte("BEGIN CERTIFICATE")) != 2 {
		t.Errorf("not two roots: %s", bundle)
	}
	store := keystore.New()
	if err := store.Load(bytes.NewReader(fileOf(p, "/etc/ssl/bailey/cacerts")), []byte("changeit")); err != nil || len(store.Aliases()) != 2 {
		t.Errorf("Java's store: %v, %v", store.Aliases(), err)
	}
	for _, want := range []string{"SSL_CERT_FILE=/etc/ssl/bailey/roots.pem", "NODE_EXTRA_CA_CERTS=/etc/ssl/bailey/root.pem", "GIT_SSL_CAINFO=/etc/ssl/bailey/roots.pem"} {
		if !slices.Contains(p.Env, want) {
			t.Errorf("no %s in %q", want, p.Env)
		}
	}
	if slices.ContainsFunc(p.Env, func(pair string) bool { return strings.HasPrefix(pair, "JAVA") }) {
		t.Errorf("Java is told twice: %q", p.Env)
	}
	var policy struct{ CACertificates [][]byte }
	if err := json.Unmarshal(fileOf(p, "/etc/chromium/policies/managed/sandbox.json"), &policy); err != nil || len(policy.CACertificates) != 1 || !bytes.Equal(policy.CACertificates[0], own.DER()) {
		t.Errorf("Chromium's policy: %v", err)
	}
	if got := string(fileOf(p, "/etc/firefox/policies/policies.json")); got != `{"policies":{"Certificates":{"Install":["/etc/ssl/bailey/root.pem"]},"DisableEncryptedClientHello":true}}`+"\n" {
		t.Errorf("Firefox's policy: %s", got)
	}
	var home []string
	for _, f := range p.Home {
		home = append(home, f.Path)
	}
	slices.Sort(home)
	if diff := cmp.Diff([]string{"/home/agent/.pki/nssdb/cert9.db", "/home/agent/.pki/nssdb/key4.db", "/home/agent/.pki/nssdb/pkcs11.txt"}, home); diff != "" {
		t.Error(diff)
	}
	for _, f := range slices.Concat(p.Files, p.Home) {
		if block, _ := pem.Decode(f.Data); bytes.Contains(f.Data, []byte("PRIVATE")) || block != nil && block.Type != "CERTIFICATE" {
			t.Errorf("A168: %s holds a key", f.Path)
		}
	}
}

// The twin: without a root everything is the host's.
func TestFromHost_WithoutRoot(t *testing.T) {
	t.Parallel()
	p := plan(t, host(machine(t, debian(t))))
	if !slices.Contains(mounts(p), "/etc/ssl/certs") || fileOf(p, "/etc/ssl/bailey/root.pem") != nil || p.Home != nil {
		t.Errorf("mounts %q", mounts(p))
	}
	for _, pair := range p.Env {
		if strings.Contains(pair, "CERT") || strings.Contains(pair, "bailey") {
			t.Error(pair)
		}
	}
}

func TestFromHost_TrustsItsRootOnFedora(t *testing.T) {
	t.Parallel()
	m := merged()
	delete(m, "etc/ssl/certs/a.pem")
	maps.Copy(m, map[string]string{
		"etc/ssl/certs":                                              "-> /etc/pki/tls/certs",
		"etc/pki/tls/certs/ca-bundle.crt":                            "-> /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"etc/pki/tls/cert.pem":                                       "-> /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem":           string(root(t, "hosts").PEM()),
		"etc/pki/ca-trust/extracted/pem/directory-hash/0123abcd.0":   "-> X.pem",
		"etc/pki/ca-trust/extracted/pem/directory-hash/X.pem":        "x",
		"etc/pki/ca-trust/extracted/java/cacerts":                    "jks",
		"etc/pki/java/cacerts":                                       "-> /etc/pki/ca-trust/extracted/java/cacerts",
		"usr/lib/jvm/java-25/lib/security/cacerts":                   "its own",
		"etc/pki/ca-trust/extracted/pem/directory-hash/f34e7aef.0":   "taken",
		"etc/pki/ca-trust/extracted/pem/directory-hash/sub/deep.txt": "deep",
	})
	h := host(machine(t, m))
	h.Root = root(t, "box").DER()
	p := plan(t, h)
	got := links(p.Links)
	for _, want := range []string{
		"/etc/ssl/certs -> /etc/pki/tls/certs", "/etc/pki/tls/certs/ca-bundle.crt -> /etc/ssl/bailey/roots.pem", "/etc/pki/tls/cert.pem -> /etc/ssl/bailey/roots.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem -> /etc/ssl/bailey/roots.pem", "/etc/pki/ca-trust/extracted/java/cacerts -> /etc/ssl/bailey/cacerts",
		"/etc/pki/ca-trust/extracted/pem/directory-hash/f34e7aef.1 -> /etc/ssl/bailey/root.pem",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no link %s in %q", want, got)
		}
	}
	if !slices.ContainsFunc(p.Env, func(pair string) bool {
		return strings.HasPrefix(pair, "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=/etc/ssl/bailey/cacerts ")
	}) {
		t.Errorf("a Java with a store of its own is not told: %q", p.Env)
	}
}

// A host without any root is no reason to fail.
func TestFromHost_TrustsItsRootAlone(t *testing.T) {
	t.Parallel()
	m := merged()
	delete(m, "etc/ssl/certs/a.pem")
	h := host(machine(t, m))
	h.Root = root(t, "box").DER()
	if p := plan(t, h); !slices.Contains(links(p.Links), "/etc/ssl/certs/ca-certificates.crt -> /etc/ssl/bailey/roots.pem") || len(fileOf(p, "/etc/ssl/bailey/roots.pem")) == 0 {
		t.Errorf("%q", links(p.Links))
	}
	h.Root = []byte("no certificate")
	if _, err := rootfs.FromHost(h); err == nil {
		t.Error("what is no certificate is trusted")
	}
}
