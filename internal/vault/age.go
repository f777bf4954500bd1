package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/seal"
)

// Recipients are who can read what is encrypted with age: the holders of
// identities, or of a passphrase.
type Recipients struct {
	Names      []string    // age1...; each a recipient
	Passphrase seal.Secret // of its own: not beside Names

	work int // a test's work factor; 0: age's own, about a second
}

func (r Recipients) parse() ([]age.Recipient, error) {
	if r.Passphrase.Len() > 0 {
		one, err := age.NewScryptRecipient(string(r.Passphrase.Reveal()))
		if err == nil && r.work > 0 {
			one.SetWorkFactor(r.work)
		}
		return []age.Recipient{one}, err
	}
	var out []age.Recipient
	for i, name := range r.Names {
		list, err := age.ParseRecipients(strings.NewReader(name))
		if err != nil || len(list) != 1 {
			// It is not repeated: it may be an identity, which is secret.
			return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("recipient %d is none of age's", i+1), "such as age1..., which age-keygen -y FILE prints; keys of SSH and plugins of age are not taken; for a passphrase use --passphrase")
		}
		out = append(out, list...)
	}
	if len(out) == 0 {
		return nil, bailey.NewError(bailey.Invalid, "nobody is named who can read it", "--recipient age1..., or --passphrase")
	}
	return out, nil
}

// encrypt returns an armored age file.
func (r Recipients) encrypt(plain []byte) (string, error) {
	list, err := r.parse()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	outer := armor.NewWriter(&out)
	inner, err := age.Encrypt(outer, list...)
	if err != nil {
		return "", bailey.WrapError(bailey.Invalid, "encrypt with age", err, "recipients of the post-quantum kind go with no other")
	}
	_, err = inner.Write(plain)
	if err = errors.Join(err, inner.Close(), outer.Close()); err != nil {
		return "", fmt.Errorf("encrypt with age: %w", err)
	}
	return out.String(), nil
}

// decrypt reads an age file, armored or not.
func decrypt(data []byte, limit int64, identities ...age.Identity) ([]byte, error) {
	var in io.Reader = bytes.NewReader(data)
	if isArmored(data) {
		in = armor.NewReader(in)
	}
	out, err := age.Decrypt(in, identities...)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(out, limit))
}

// isArmored reports whether an age file is text. Blank lines may stand before
// it, as where it was copied (armor.NewReader).
func isArmored(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, "\r\n"), []byte(armor.Header))
}

// identitiesIn reads a file of age identities.
func identitiesIn(path string) ([]age.Identity, error) {
	f, err := os.Open(path) // an age file of the user's: wherever it leads
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "open the age identities", err, "name a file that age-keygen wrote, and that you may read")
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	data, err := io.ReadAll(io.LimitReader(f, maxSmall))
	if err != nil {
		return nil, bailey.WrapError(bailey.Invalid, "read the age identities", err, "name a file that age-keygen wrote")
	}
	if CheckExport(data) == nil {
		return nil, bailey.NewError(bailey.Invalid, path+" is encrypted itself", "decrypt it on the way, and write the identities nowhere: <(age --decrypt "+path+") in the place of its name")
	}
	list, err := age.ParseIdentities(bytes.NewReader(data))
	if err != nil { // its words may repeat a line
		return nil, bailey.NewError(bailey.Invalid, path+" holds no age identities that bailey can use", "name a file that age-keygen wrote; keys of SSH and plugins of age are not taken")
	}
	return list, nil
}

// byIdentity decrypts the key of a file that is encrypted to recipients.
func (o *opener) byIdentity(path, data string) (string, error) {
	identity := o.env(IdentityVariable)
	if identity == "" {
		return "", locked(path+" is encrypted to an age identity", "", "say where the identity is: BAILEY_VAULT_IDENTITY=FILE")
	}
	list, err := identitiesIn(identity)
	if err != nil {
		return "", err
	}
	text, err := decrypt([]byte(data), maxSmall, list...)
	if err != nil {
		return "", bailey.WrapError(bailey.Unavailable, fmt.Sprintf("%s opens by none of the identities in %s", path, identity), noIdentity(err), "name the file with the identity that it is encrypted to")
	}
	return string(text), nil
}

// noIdentity leaves out the long form of an error that the message says.
func noIdentity(err error) error {
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil
	}
	return err
}

// passphraseHint says what does without a terminal.
const passphraseHint = "start bailey at a terminal; where there is none, hand the key over (BAILEY_VAULT_KEY=fd:N, its 64 hex digits), or keep it where no passphrase is needed: bailey secret rekey --recipient age1... with BAILEY_VAULT_IDENTITY=FILE"

// byPassphrase decrypts the key of a file that has a passphrase.
func (o *opener) byPassphrase(path, data string) (string, error) {
	if o.Ask == nil {
		return "", locked(path+" has a passphrase", ", and there is nobody to ask", passphraseHint)
	}
	given, err := o.Ask("passphrase of the vault's key: ")
	if err != nil {
		return "", bailey.WrapError(bailey.KindOf(err), path+" has a passphrase", err, passphraseHint)
	}
	text, err := openByPassphrase([]byte(data), maxSmall, given)
	if err != nil {
		return "", bailey.NewError(bailey.Forbidden, path+" does not open by that passphrase", "try again")
	}
	return string(text), nil
}

func openByPassphrase(data []byte, limit int64, given seal.Secret) ([]byte, error) {
	identity, err := age.NewScryptIdentity(string(given.Reveal()))
	if err != nil {
		return nil, err
	}
	return decrypt(data, limit, identity)
}
