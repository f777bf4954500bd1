package redteam

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// repository is the folder of a small git repository in the scratch folder.
const repository = "repository"

// gitConfig is the repository's configuration as the bait has it.
const gitConfig = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"

func gitAttacks() []attack {
	return []attack{
		{"RES-02", "config", "have the host's git run a program by its configuration", "", func(_ context.Context, t *Target) took {
			return writeGit(t, "config", "[core]\n\tfsmonitor = touch /tmp/"+planted+"\n")
		}, false},
		{"RES-02", "hook", "have it run a hook", "", func(_ context.Context, t *Target) took {
			return writeGit(t, "hooks/post-checkout", "#!/bin/sh\n")
		}, false},
		{"RES-02", "attributes", "have it run a filter", "", func(_ context.Context, t *Target) took {
			return writeGit(t, "info/attributes", "* filter=x\n")
		}, false},
		{"RES-02", "worktree-config", "have it read a second configuration", "", func(_ context.Context, t *Target) took {
			return writeGit(t, "config.worktree", "[core]\n\tfsmonitor = touch /tmp/"+planted+"\n")
		}, false},
	}
}

// writeGit changes what acts of a repository; the judge looks at it on the
// host.
func writeGit(t *Target, name, text string) took {
	path := filepath.Join(t.Scratch, repository, ".git", name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700))
	if err != nil {
		return failed(err)
	}
	return took{Said: "it was written"}
}

// layRepository makes it.
func layRepository(scratch string) error {
	git := filepath.Join(scratch, repository, ".git")
	err := errors.Join(os.MkdirAll(filepath.Join(git, "objects"), 0o700), os.MkdirAll(filepath.Join(git, "refs", "heads"), 0o700),
		os.MkdirAll(filepath.Join(git, "hooks"), 0o700), os.MkdirAll(filepath.Join(git, "info"), 0o700),
		os.WriteFile(filepath.Join(git, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600),
		os.WriteFile(filepath.Join(git, "config"), []byte(gitConfig), 0o600),
		os.WriteFile(filepath.Join(git, "info", "attributes"), nil, 0o600))
	if err != nil {
		return fmt.Errorf("make a repository to attack: %w", err)
	}
	return nil
}
