package vault

import (
	"github.com/bailey-dev/bailey/internal/seal"
)

// StopAt has at called before every change that is made to the disk: an error
// ends the work there.
func StopAt(p Place, at func(step string) error) Place {
	p.at = at
	return p
}

// Forge writes a store in which change did what it liked, with a code that
// holds, as only the holder of the key could.
func Forge(p Place, change func(rows []Row) []Row) error {
	o := newOpener(p)
	i, err := o.inspect()
	if err != nil {
		return err
	}
	var rows []Row
	for _, r := range i.store.rows {
		rows = append(rows, Row{r})
	}
	s := i.store
	s.rows = nil
	for _, r := range change(rows) {
		s.rows = append(s.rows, r.row)
	}
	data, err := s.encode(i.key)
	if err != nil {
		return err
	}
	if err := p.write(p.storePath(), data); err != nil {
		return err
	}
	return p.writeNoted(noted{Vault: s.Vault, Generation: s.Generation, MAC: s.mac})
}

// Row is a row of a store.
type Row struct{ row }

// Take puts the sealed value of another row in place of this one's.
func (r *Row) Take(o Row) { r.Box = o.Box }

// KeyOf is the key of a vault.
func KeyOf(v *Vault) seal.Key { return v.key }

// Encrypt is what Export does with what it wrote.
func Encrypt(to Recipients, plain []byte) (string, error) { return to.encrypt(plain) }

// ByPassphrase is for a passphrase that is quick to try.
func ByPassphrase(passphrase seal.Secret) Recipients {
	const quick = 10
	return Recipients{Passphrase: passphrase, work: quick}
}
