package vault

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
)

// KeyKind is how a master key is kept.
type KeyKind string

// The ways of keeping a key.
const (
	PlainKey      KeyKind = "plain"      // in the key file, as it is
	RecipientKey  KeyKind = "age"        // in the key file, encrypted with age to recipients
	PassphraseKey KeyKind = "passphrase" // in the key file, encrypted with age by a passphrase
	KeyringKey    KeyKind = "keyring"    // in the keyring of the user's session
	DescriptorKey KeyKind = "descriptor" // by whoever starts bailey
)

// keyFile is the form of a key's file: it says which key it is of, and how to
// come by it.
type keyFile struct {
	Version    int      `json:"bailey_vault_key"`
	ID         string   `json:"id"`
	Kind       KeyKind  `json:"kind"`
	Recipients []string `json:"recipients,omitempty"` // whom an age key is encrypted to
	Data       string   `json:"data,omitempty"`       // 64 hex digits, or an armored age file
}

// parseKeyFile never repeats what it reads.
func parseKeyFile(path string, data []byte) (*keyFile, error) {
	var k keyFile
	bad := bailey.NewError(bailey.Unavailable, path+" is no key of a vault", "restore it from a backup")
	if err := strictly(data, &k); err != nil || k.Version != storeVersion {
		return nil, bad
	}
	switch k.Kind {
	case PlainKey, RecipientKey, PassphraseKey, KeyringKey:
		return &k, nil
	case DescriptorKey:
	}
	return nil, bad
}

// encode is what parseKeyFile reads.
func (k keyFile) encode() ([]byte, error) {
	k.Version = storeVersion
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("bug: a key cannot be written: %w", err)
	}
	return append(data, '\n'), nil
}

// plainKeyFile is the file of a key that is kept as it is.
func plainKeyFile(key seal.Key) keyFile {
	return keyFile{ID: key.ID(), Kind: PlainKey, Data: hex.EncodeToString(key.Reveal())}
}

// opener finds keys, and keeps those that it found: a person is asked once, and
// a descriptor can be read once.
type opener struct {
	Place
	keys map[string]seal.Key // by id
	last string              // the id of the key that was given by a descriptor

	keyless bool // see Look
}

func newOpener(p Place) *opener { return &opener{Place: p, keys: map[string]seal.Key{}} }

// key returns the key with an id, or whichever there is for an empty id. That
// there is none at all is errNoKeyFile.
func (o *opener) key(id string) (seal.Key, error) {
	if k, ok := o.keys[id]; ok {
		return k, nil
	}
	if _, given, err := o.descriptor(); err != nil {
		return seal.Key{}, err
	} else if given {
		return o.fromDescriptor(id)
	}
	path, err := o.keyPath()
	if err != nil {
		return seal.Key{}, err
	}
	if err := o.guarded(filepath.Dir(path)); err != nil {
		return seal.Key{}, err
	}
	found := ""
	for _, at := range []string{path, path + nextSuffix} {
		k, err := o.readKeyFile(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return seal.Key{}, err
		case id == "" || k.ID == id:
			return o.unlock(at, k)
		case found == "":
			found = fmt.Sprintf("%s holds %s", at, k.ID)
		}
	}
	if found == "" {
		return seal.Key{}, errNoKeyFile
	}
	return seal.Key{}, mismatchError{bailey.NewError(bailey.Unavailable, fmt.Sprintf("%s is sealed with %s, and %s", o.storePath(), id, found),
		"restore the key that belongs to it, or say where it is: BAILEY_VAULT_KEY")}
}

// mismatchError says that there is a key, and not the one that was named.
type mismatchError struct{ err error }

// Error is what it is around.
func (e mismatchError) Error() string { return e.err.Error() }

// Unwrap returns what it is around.
func (e mismatchError) Unwrap() error { return e.err }

// guarded refuses a key's folder that others can write to: they could put
// another key there. It may be a link, as folders of settings are.
func (p Place) guarded(dir string) error {
	fi, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "look at "+dir, err, "")
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || !fi.IsDir() || fi.Mode().Perm()&0o022 != 0 || int(st.Uid) != os.Getuid() && st.Uid != 0 {
		return bailey.NewError(bailey.Forbidden, fmt.Sprintf("other users can change %s, which holds the vault's key", dir), "make it yours and nobody else's to write: chmod 700 "+dir)
	}
	return nil
}

func (p Place) readKeyFile(path string) (*keyFile, error) {
	data, _, err := p.read(path, maxSmall)
	if err != nil {
		return nil, err
	}
	return parseKeyFile(path, data)
}

// unlock takes the key out of its file.
func (o *opener) unlock(path string, k *keyFile) (seal.Key, error) {
	if known, ok := o.keys[k.ID]; ok {
		return known, nil
	}
	var text string
	var err error
	switch k.Kind {
	case PlainKey:
		text = k.Data
	case RecipientKey:
		text, err = o.byIdentity(path, k.Data)
	case PassphraseKey:
		text, err = o.byPassphrase(path, k.Data)
	case KeyringKey:
		text, err = o.byKeyring(k.ID)
	case DescriptorKey: // no file is of this kind
	}
	if err != nil {
		return seal.Key{}, err
	}
	key, err := parseKeyText(text)
	if err != nil || key.ID() != k.ID {
		return seal.Key{}, bailey.NewError(bailey.Unavailable, fmt.Sprintf("%s does not hold %s, of which it says that it does", path, k.ID), "restore it from a backup")
	}
	o.keys[k.ID] = key
	return key, nil
}

var errNotAKey = errors.New("not 64 hex digits")

func parseKeyText(text string) (seal.Key, error) {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return seal.Key{}, errNotAKey // hex's own words repeat a digit
	}
	return seal.ParseKey(raw)
}

// fromDescriptor reads the key that whoever started bailey hands over: 64 hex
// digits, or a plain key file.
func (o *opener) fromDescriptor(id string) (seal.Key, error) {
	if o.last == "" {
		fd, _, err := o.descriptor()
		if err != nil {
			return seal.Key{}, err
		}
		key, err := ReadDescriptor(fd)
		if err != nil {
			return seal.Key{}, err
		}
		o.last = key.ID()
		o.keys[o.last] = key
	}
	if id == "" || id == o.last {
		return o.keys[o.last], nil
	}
	return seal.Key{}, mismatchError{bailey.NewError(bailey.Unavailable, fmt.Sprintf("%s is sealed with %s, and %s gives %s", o.storePath(), id, o.env(KeyVariable), o.last), "hand over the key that belongs to it")}
}

// ReadDescriptor reads a key from an inherited descriptor, which stays open.
func ReadDescriptor(fd int) (seal.Key, error) {
	bad := func(problem string) error {
		return bailey.NewError(bailey.Invalid, fmt.Sprintf("the vault's key by fd:%d: %s", fd, problem), "hand over 64 hex digits, or a plain key file: bailey … 3<KEYFILE with fd:3")
	}
	own, err := syscall.Dup(fd)
	if err != nil {
		return seal.Key{}, bad("the descriptor is not open")
	}
	syscall.CloseOnExec(own)
	f := os.NewFile(uintptr(own), "key")
	defer func() { _ = f.Close() }() // read only: nothing to lose
	data, err := io.ReadAll(io.LimitReader(f, maxSmall))
	if err != nil {
		return seal.Key{}, bad("it cannot be read")
	}
	text := strings.TrimSpace(string(data))
	if strings.HasPrefix(text, "{") {
		k, err := parseKeyFile("it", data)
		if err != nil || k.Kind != PlainKey {
			return seal.Key{}, bad("it is no plain key file")
		}
		text = k.Data
	}
	key, err := parseKeyText(text)
	if err != nil {
		return seal.Key{}, bad("it is no key")
	}
	return key, nil
}
