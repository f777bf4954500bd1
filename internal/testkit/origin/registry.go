package origin

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
)

// Version is the version of every package here.
const Version = "1.2.3"

// NPM serves the npm package "tiny", whose value is the text.
func NPM(tb testing.TB, text string) http.Handler {
	tb.Helper()
	value, err := json.Marshal(text)
	if err != nil {
		tb.Fatal(err)
	}
	archive := tarball(tb, map[string]string{
		"package/package.json": `{"name":"tiny","version":"` + Version + `","main":"index.js"}`,
		"package/index.js":     "module.exports = " + string(value),
	})
	sum := sha512.Sum512(archive)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /tiny", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": "tiny", "dist-tags": map[string]string{"latest": Version},
			"versions": map[string]any{Version: map[string]any{
				"name": "tiny", "version": Version,
				"dist": map[string]string{
					"tarball":   "https://" + r.Host + "/tiny/-/tiny.tgz",
					"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
				},
			}},
		})
	})
	mux.HandleFunc("GET /tiny/-/tiny.tgz", serving(archive))
	return mux
}

// PyPI serves a simple index (PEP 503) with one wheel, of the package "tiny",
// whose text is tiny.text.
func PyPI(tb testing.TB, text string) http.Handler {
	tb.Helper()
	const info = "tiny-" + Version + ".dist-info/"
	const wheel = "tiny-" + Version + "-py3-none-any.whl"
	archive := zipped(tb, map[string]string{
		"tiny.py":         fmt.Sprintf("text = %q\n", text),
		info + "METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: " + Version + "\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   "tiny.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	})
	sum := sha256.Sum256(archive)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /simple/tiny/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<!DOCTYPE html><a href=\"/files/%s#sha256=%s\">%s</a>", wheel, hex.EncodeToString(sum[:]), wheel)
	})
	mux.HandleFunc("GET /files/"+wheel, serving(archive))
	return mux
}

// GoProxy speaks the GOPROXY protocol (go.dev/ref/mod#goproxy-protocol) for
// the module tiny.test/m, whose function Text returns the text.
func GoProxy(tb testing.TB, text string) http.Handler {
	tb.Helper()
	const gomod = "module tiny.test/m\n\ngo 1.20\n"
	const top = "tiny.test/m@v" + Version + "/"
	archive := zipped(tb, map[string]string{
		top + "go.mod": gomod,
		top + "m.go":   fmt.Sprintf("// Package m is a test.\npackage m\n\n// Text returns it.\nfunc Text() string { return %q }\n", text),
	})
	mux := http.NewServeMux()
	for name, data := range map[string][]byte{
		"list": []byte("v" + Version + "\n"), "v" + Version + ".info": []byte(`{"Version":"v` + Version + `"}`),
		"v" + Version + ".mod": []byte(gomod), "v" + Version + ".zip": archive,
	} {
		mux.HandleFunc("GET /tiny.test/m/@v/"+name, serving(data))
	}
	return mux
}

func serving(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
}

func tarball(tb testing.TB, files map[string]string) []byte {
	tb.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}
		if err := w.WriteHeader(h); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func zipped(tb testing.TB, files map[string]string) []byte {
	tb.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			tb.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}
