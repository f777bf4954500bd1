package origin

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// Wheels serves a simple index (PEP 503) with one pure wheel, of version
// Version, for each package: by its name the files in it.
func Wheels(tb testing.TB, packages map[string]map[string]string) http.Handler {
	tb.Helper()
	mux := http.NewServeMux()
	for name, files := range packages {
		info := name + "-" + Version + ".dist-info/"
		wheel := name + "-" + Version + "-py3-none-any.whl"
		all := maps.Clone(files)
		all[info+"METADATA"] = "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + Version + "\n"
		all[info+"WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
		var record strings.Builder
		for path := range all {
			record.WriteString(path + ",,\n")
		}
		all[info+"RECORD"] = record.String() + info + "RECORD,,\n"
		archive := zipped(tb, all)
		sum := sha256.Sum256(archive)
		mux.HandleFunc("GET /simple/"+name+"/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, "<!DOCTYPE html><a href=\"/files/%s#sha256=%s\">%s</a>", wheel, hex.EncodeToString(sum[:]), wheel)
		})
		mux.HandleFunc("GET /files/"+wheel, serving(archive))
	}
	return mux
}

// Tarballs serves an npm registry with one version, Version, of each package:
// by its name the files in it, package.json aside, and what that says beyond
// name and version. Files below bin/ can be executed.
func Tarballs(tb testing.TB, packages map[string]Tarball) http.Handler {
	tb.Helper()
	mux := http.NewServeMux()
	for name, t := range packages {
		manifest := map[string]any{"name": name, "version": Version}
		maps.Copy(manifest, t.Manifest)
		text, err := json.Marshal(manifest)
		if err != nil {
			tb.Fatal(err)
		}
		files := map[string]string{"package/package.json": string(text)}
		for path, data := range t.Files {
			files["package/"+path] = data
		}
		archive := tarball(tb, files)
		sum := sha512.Sum512(archive)
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			version := maps.Clone(manifest)
			version["dist"] = map[string]string{
				"tarball":   "https://" + r.Host + "/" + name + "/-/" + name + ".tgz",
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			}
			if scripts, ok := t.Manifest["scripts"]; ok && scripts != nil {
				version["hasInstallScript"] = true
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{
				"name": name, "dist-tags": map[string]string{"latest": Version}, "versions": map[string]any{Version: version},
			})
		})
		mux.HandleFunc("GET /"+name+"/-/"+name+".tgz", serving(archive))
	}
	return mux
}

// Tarball is an npm package.
type Tarball struct {
	Manifest map[string]any
	Files    map[string]string
}
