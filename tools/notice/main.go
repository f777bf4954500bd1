// Command notice writes NOTICE: for each module that is linked into
// cmd/bailey its version and its licence, word for word. With -check it
// compares instead and exits 1 when they differ.
//
// It reads what the go command says is linked for linux/amd64 and the licence
// files in the module cache; it asks nobody else. A module without a licence
// file is an error.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", "..", "folder of the main module")
	check := flag.Bool("check", false, "compare with NOTICE instead of writing it")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "notice:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	modules, err := linked(root)
	if err != nil {
		return err
	}
	want, err := render(modules)
	if err != nil {
		return err
	}
	path := filepath.Join(root, "NOTICE")
	if !check {
		return os.WriteFile(path, want, 0o644)
	}
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, want) {
		return errors.New("NOTICE is not what the linked modules say: run make gen")
	}
	return nil
}

// module is one module whose packages are linked in.
type module struct {
	Path, Version, Dir string
}

// linked returns the modules of the packages of cmd/bailey, sorted, and the
// standard library as the module "std".
func linked(root string) ([]module, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Standard,Module", "./cmd/bailey")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of cmd/bailey: %w", err)
	}
	seen := map[string]module{}
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var pkg struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if m := pkg.Module; m != nil && !m.Main {
			seen[m.Path] = module{m.Path, m.Version, m.Dir}
		}
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	modules := []module{{"the Go standard library and runtime", "", strings.TrimSpace(string(goroot))}}
	for _, m := range seen {
		modules = append(modules, m)
	}
	slices.SortFunc(modules[1:], func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	taken, err := takenOver(root)
	return append(modules, taken...), err
}

// takenOver returns the folders of the main module that come from elsewhere:
// those with a licence of their own.
func takenOver(root string) ([]module, error) {
	var out []module
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !licenceFile.MatchString(e.Name()) {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		out = append(out, module{rel + " (of this source)", "", filepath.Dir(path)})
		return err
	})
	return out, err
}

const head = `bailey
Copyright The bailey authors

Licensed under the Apache License, Version 2.0 (see LICENSE).

The program bailey has the modules below linked into it, unchanged, each under
its own licence. The sources of each are what the Go module system serves for
the version named. Folders of this source that come from elsewhere stand at the
end. Written by "make gen".
`

const rule = "================================================================================"

func render(modules []module) ([]byte, error) {
	var list, texts bytes.Buffer
	first := map[string]string{} // text to the module it stands under
	for _, m := range modules {
		text, err := licence(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		name := strings.TrimSpace(m.Path + " " + m.Version)
		fmt.Fprintf(&list, "  %-100s %s\n", name, kind(text))
		fmt.Fprintf(&texts, "\n%s\n%s\n%s\n\n", rule, name, rule)
		if other, ok := first[text]; ok {
			fmt.Fprintf(&texts, "The same text as for %s.\n", other)
			continue
		}
		first[text] = m.Path
		texts.WriteString(text)
	}
	return slices.Concat([]byte(head+"\n"), list.Bytes(), texts.Bytes()), nil
}

var licenceFile = regexp.MustCompile(`^(LICEN[CS]E|COPYING|NOTICE|PATENTS)(\.(md|txt))?$`)

// licence returns the text of the module's licence files, one after the other.
func licence(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceFile.MatchString(strings.ToUpper(e.Name())) && !licenceFile.MatchString(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		parts = append(parts, tidy(string(data)))
	}
	if len(parts) == 0 {
		return "", errors.New("no licence file")
	}
	return strings.Join(parts, "\n"), nil
}

// tidy removes what git would complain about and nothing that is read.
func tidy(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}

// kind names the licence for the list; the text is what counts.
func kind(text string) string {
	flat := strings.Join(strings.Fields(text), " ")
	for _, k := range []struct{ name, phrase string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"MPL-2.0", "Mozilla Public License"},
		{"BSD-3-Clause or GPL-2.0", "GNU General Public License"},
		{"BSD-3-Clause", "Neither the name"},
		{"BSD-3-Clause", "may be used to endorse or promote"},
		{"BSD-2-Clause", "Redistributions in binary form"},
		{"MIT", "Permission is hereby granted, free of charge"},
		{"ISC", "Permission to use, copy, modify, and"},
	} {
		if strings.Contains(flat, k.phrase) {
			return k.name
		}
	}
	return "see below"
}
