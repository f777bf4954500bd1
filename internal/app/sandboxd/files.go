package sandboxd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bailey-dev/bailey/internal/wire"
)

// writeFiles makes the files that a command is to find, such as an agent's
// settings in its home. One that exists is left as it is.
func writeFiles(files []wire.File) error {
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
			return fmt.Errorf("make folder for %s: %w", f.Path, err)
		}
		if f.Mode == wire.LinkMode {
			if err := writeLink(f.Path, string(f.Data)); err != nil {
				return err
			}
			continue
		}
		file, err := os.OpenFile(f.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(f.Mode))
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
		_, err = file.Write(f.Data)
		// Chmod: the umask is that of the command before.
		if err := errors.Join(err, file.Chmod(fs.FileMode(f.Mode)), file.Close()); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}

// writeLink makes a link to what is mounted elsewhere. It takes the place of a
// file or another link, which a command may have left in a home that is kept;
// a folder with something in it is not taken away.
func writeLink(path, target string) error {
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make place for a mount at %s: %w", path, err)
	}
	if err := os.Symlink(target, path); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	return nil
}
