package netlab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// systemCerts is where Debian keeps what the machine trusts, for OpenSSL, Go,
// GnuTLS and (in the folder java) the JVM.
const systemCerts = "/etc/ssl/certs"

// Trust makes the lab's root one that the host trusts, as an administrator
// would with update-ca-certificates: commands that are started in the lab from
// now on see a copy of the system's certificates with one more in the bundle.
// Programs with a list of their own (Chromium, Node) do not look there, and the
// JVM wants TrustJVM.
func (l *Lab) Trust() {
	l.tb.Helper()
	if err := l.trust(l.certs()); err != nil {
		l.tb.Fatalf("netlab: %v", err)
	}
}

// TrustJVM is Trust, and the JVM's store has the root too, where there is one.
// It is apart because a JVM has to be started for it.
func (l *Lab) TrustJVM() {
	l.tb.Helper()
	l.Trust()
	if err := l.trustJVM(l.certs()); err != nil {
		l.tb.Fatalf("netlab: %v", err)
	}
}

func (l *Lab) certs() string { return filepath.Join(l.dir, "certs") }

func (l *Lab) trust(dir string) error {
	if out, err := exec.Command("cp", "-rL", systemCerts, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", systemCerts, err, out)
	}
	bundle := filepath.Join(dir, "ca-certificates.crt")
	data, err := os.ReadFile(bundle)
	if err != nil {
		return fmt.Errorf("read the system's bundle: %w", err)
	}
	if err := os.WriteFile(bundle, bytes.Join([][]byte{data, l.ca.PEM()}, []byte("\n")), 0o644); err != nil {
		return fmt.Errorf("write the lab's bundle: %w", err)
	}
	return nil
}

func (l *Lab) trustJVM(dir string) error {
	store := filepath.Join(dir, "java", "cacerts")
	if _, err := os.Stat(store); errors.Is(err, fs.ErrNotExist) {
		return nil // no JVM here
	}
	// "changeit" is the password of every JVM's store: it guards nothing.
	add := exec.Command("keytool", "-importcert", "-noprompt", "-alias", "lab", "-file", l.CAFile(), "-keystore", store, "-storepass", "changeit")
	if out, err := add.CombinedOutput(); err != nil {
		return fmt.Errorf("add to the JVM's store: %w: %s", err, out)
	}
	return nil
}
