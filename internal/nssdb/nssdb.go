package nssdb

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // how NSS names a certificate beside SHA-1; nothing rests on it
	"crypto/pbkdf2"
	"crypto/sha1" //nolint:gosec // likewise, and how it derives a key of a password that is empty
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Files are those of a database, by name.
type Files map[string][]byte

// New makes the database of a folder that holds one root with a name (its
// label) for people. It fails for a root whose names are too long for an index of
// one page. The files are what
//
//	certutil -N --empty-password; certutil -A -t C,, -n NAME
//
// write, but for times, random numbers and object IDs.
func New(dir string, root *x509.Certificate, name string) (Files, error) {
	rows, err := objects(root, name)
	if err != nil {
		return nil, err
	}
	signed, err := metaData(rows[1])
	if err != nil {
		return nil, err
	}
	certs, err := encode([]table{objectTable("nssPublic", rows)})
	if err != nil {
		return nil, fmt.Errorf("write cert9.db: %w", err)
	}
	keys, err := encode([]table{objectTable("nssPrivate", nil), {
		name: "metaData", sql: "CREATE TABLE metaData (id PRIMARY KEY UNIQUE ON CONFLICT REPLACE, item1, item2)",
		key: 0, rows: signed, indexes: nil,
	}})
	if err != nil {
		return nil, fmt.Errorf("write key4.db: %w", err)
	}
	return Files{"cert9.db": certs, "key4.db": keys, "pkcs11.txt": []byte(fmt.Sprintf(modules, dir))}, nil
}

// modules is pkcs11.txt: that there is no module but NSS's own.
const modules = `library=
name=NSS Internal PKCS #11 Module
parameters=configdir='sql:%s' certPrefix='' keyPrefix='' secmod='secmod.db' flags= updatedir='' updateCertPrefix='' updateKeyPrefix='' updateid='' updateTokenDescription='' 
NSS=Flags=internal,critical trustOrder=75 cipherOrder=100 slotParams=(1={slotFlags=[ECC,RSA,DSA,DH,RC2,RC4,DES,RANDOM,SHA1,MD5,MD2,SSL,TLS,AES,Camellia,SEED,SHA256,SHA512] askpw=any timeout=30})

`

// attribute is a property of an object: a number of PKCS #11, or of NSS.
type attribute uint32

// Those of PKCS #11 (pkcs11t.h) and NSS (pkcs11n.h) that are written.
const (
	ckaClass       attribute = 0x0
	ckaToken       attribute = 0x1
	ckaPrivate     attribute = 0x2
	ckaLabel       attribute = 0x3
	ckaValue       attribute = 0x11
	ckaCertType    attribute = 0x80
	ckaIssuer      attribute = 0x81
	ckaSerial      attribute = 0x82
	ckaSubject     attribute = 0x101
	ckaID          attribute = 0x102
	ckaModifiable  attribute = 0x170
	ckaServerAuth  attribute = 0xce536358
	ckaClientAuth  attribute = 0xce536359
	ckaCodeSigning attribute = 0xce53635a
	ckaEmail       attribute = 0xce53635b
	ckaStepUp      attribute = 0xce536360
	ckaSHA1        attribute = 0xce5363b4
	ckaMD5         attribute = 0xce5363b5
)

// Values of these.
const (
	certificate    = 1          // CKO_CERTIFICATE
	trustOfOne     = 0xce534353 // CKO_NSS_TRUST
	trustedToIssue = 0xce534352 // CKT_NSS_TRUSTED_DELEGATOR
	mustVerify     = 0xce534353 // CKT_NSS_MUST_VERIFY_TRUST: as if it were unknown
	validToIssue   = 0xce53435b // CKT_NSS_VALID_DELEGATOR: an authority, and no anchor
)

// attributes are the columns of both tables of objects, in order
// (known_attributes of sdb.c).
const attributes = `0 1 2 3 10 11 12 80 81 82 83 84 85 86 87 88 89 8a 8b 90
100 101 102 103 104 105 106 107 108 109 10a 10b 10c 110 111 120 121 122 123 124 125 126 127 128 129
130 131 132 133 134 160 161 162 163 164 165 166 170 180 181 200 201 202 210 300 301 302
400 401 402 403 404 405 406 480 481 482 500 501 502 503 40000211 40000212 80000001
ce534351 ce534352 ce534353 ce534354 ce534355 ce534356 ce534357 ce534358 ce534364 ce534365 ce534366 ce534367 ce534368 ce534369 ce534373 ce534374
ce536351 ce536352 ce536353 ce536354 ce536355 ce536356 ce536357 ce536358 ce536359 ce53635a ce53635b ce53635c ce53635d ce53635e ce53635f
ce536360 ce5363b4 ce5363b5 d5a0db00`

// column returns the place of an attribute in a row; 0 is the object's ID.
func column(a attribute) int { return columns()[a] }

var columns = sync.OnceValue(func() map[attribute]int {
	out := make(map[attribute]int)
	for i, name := range strings.Fields(attributes) {
		a, err := strconv.ParseUint(name, 16, 32)
		if err != nil {
			panic("bug: no attribute of NSS: " + name)
		}
		out[attribute(a)] = i + 1
	}
	return out
})

// objectTable returns a table of objects.
func objectTable(name string, rows [][]any) table {
	t := table{
		name: name, key: 0, rows: rows, indexes: nil,
		sql: "CREATE TABLE " + name + " (id PRIMARY KEY UNIQUE ON CONFLICT ABORT, a" + strings.Join(strings.Fields(attributes), ", a") + ")",
	}
	for _, x := range []struct {
		name string
		attribute
	}{{"issuer", ckaIssuer}, {"subject", ckaSubject}, {"label", ckaLabel}, {"ckaid", ckaID}} {
		t.indexes = append(t.indexes, index{
			name: x.name, column: column(x.attribute),
			sql: fmt.Sprintf("CREATE INDEX %s ON %s (a%x)", x.name, name, uint32(x.attribute)),
		})
	}
	return t
}

// objects returns the rows of the certificate and of how far it is trusted.
func objects(root *x509.Certificate, name string) ([][]any, error) {
	serial, err := asn1.Marshal(root.SerialNumber)
	if err != nil {
		return nil, fmt.Errorf("encode the serial number: %w", err)
	}
	var key struct { // SubjectPublicKeyInfo (RFC 5280, section 4.1)
		Algorithm asn1.RawValue
		Bits      asn1.BitString
	}
	if _, err := asn1.Unmarshal(root.RawSubjectPublicKeyInfo, &key); err != nil {
		return nil, fmt.Errorf("read the public key: %w", err)
	}
	id := sha1.Sum(key.Bits.Bytes)                   //nolint:gosec // see imports
	sha, md := sha1.Sum(root.Raw), md5.Sum(root.Raw) //nolint:gosec // see imports
	yes, no := []byte{1}, []byte{0}
	return [][]any{
		object(1, values{
			{ckaClass, ulong(certificate)},
			{ckaToken, yes},
			{ckaPrivate, no},
			{ckaLabel, []byte(name)},
			{ckaValue, root.Raw},
			{ckaCertType, ulong(0)},
			{ckaIssuer, root.RawIssuer},
			{ckaSerial, serial},
			{ckaSubject, root.RawSubject},
			{ckaID, id[:]},
			{ckaModifiable, yes},
		}),
		object(2, values{
			{ckaClass, ulong(trustOfOne)},
			{ckaToken, yes},
			{ckaPrivate, no},
			{ckaLabel, empty()},
			{ckaIssuer, root.RawIssuer},
			{ckaSerial, serial},
			{ckaModifiable, yes},
			{ckaServerAuth, ulong(trustedToIssue)},
			{ckaClientAuth, ulong(validToIssue)},
			{ckaCodeSigning, ulong(mustVerify)},
			{ckaEmail, ulong(mustVerify)},
			{ckaStepUp, no},
			{ckaSHA1, sha[:]},
			{ckaMD5, md[:]},
		}),
	}, nil
}

// values are what an object has of attributes: an attribute, and its value as
// NSS keeps it.
type values []struct {
	of attribute
	is []byte
}

func object(id int, has values) []any {
	row := make([]any, 1+len(columns()))
	row[0] = id
	for _, v := range has {
		row[column(v.of)] = v.is
	}
	return row
}

// ulong encodes a number (CK_ULONG) as NSS does on every machine.
func ulong(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }

// empty stands for a value of no bytes (SQLITE_EXPLICIT_NULL of sdb.c).
func empty() []byte { return []byte{0xa5, 0, 0x5a} }

// metaData returns the rows that say that the password is empty, and vouch by
// it for what an object of trust says: NSS takes that for unsaid otherwise.
func metaData(object []any) ([][]any, error) {
	salt := salted("password")[:sha1.Size]
	password := sha1.Sum(salt) //nolint:gosec // of the salt and an empty password
	check, err := passwordCheck(password[:])
	if err != nil {
		return nil, err
	}
	rows := [][]any{{"password", salt, check}}
	for _, a := range []attribute{ckaServerAuth, ckaClientAuth, ckaCodeSigning, ckaEmail, ckaStepUp, ckaSHA1, ckaMD5} {
		id, _ := object[0].(int)
		value, _ := object[column(a)].([]byte)
		signature, err := sign(password[:], uint32(id), a, value)
		if err != nil {
			return nil, err
		}
		rows = append(rows, []any{fmt.Sprintf("sig_cert_%08x_%08x", id, uint32(a)), signature, nil})
	}
	return rows, nil
}

// salted returns a salt. It is no secret, nor is what is derived with it: the
// password is empty.
func salted(purpose string) []byte {
	sum := sha256.Sum256([]byte("bailey " + purpose))
	return sum[:]
}

// algorithm is an AlgorithmIdentifier (RFC 5280, section 4.1.1.2).
type algorithm struct {
	ID         asn1.ObjectIdentifier
	Parameters any `asn1:"optional"`
}

// kdf are the parameters of PBKDF2 (RFC 8018, appendix A.2).
type kdf struct {
	Salt       []byte
	Iterations int
	KeyLength  int
	PRF        struct{ ID asn1.ObjectIdentifier }
}

// encrypted is an EncryptedPrivateKeyInfo (RFC 5208, section 6), in which NSS
// keeps signatures too.
type encrypted struct {
	Algorithm struct {
		ID         asn1.ObjectIdentifier
		Parameters struct {
			KDF struct {
				ID         asn1.ObjectIdentifier
				Parameters kdf
			}
			Scheme any
		}
	}
	Data []byte
}

// The object identifiers of RFC 8018 and of AES (NIST).
func pkcs5(n int) asn1.ObjectIdentifier { return asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, n} }

func hmacSHA256() asn1.ObjectIdentifier { return asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9} }

func aes256() asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}
}

// Numbers of pkcs5.
const (
	pbkdf = 12
	pbes  = 13
	pbmac = 14
)

// seal returns what is derived of a password for a purpose, and what a reader
// needs to do the same; Data is to be filled in. NSS derives in one round where
// the password is empty.
func seal(password []byte, purpose string, n int, scheme any) (key []byte, e encrypted, err error) {
	salt := salted(purpose)
	key, err = pbkdf2.Key(sha256.New, string(password), salt, 1, sha256.Size)
	if err != nil {
		return nil, encrypted{}, fmt.Errorf("derive key for %s: %w", purpose, err)
	}
	e.Algorithm.ID = pkcs5(n)
	e.Algorithm.Parameters.KDF.ID = pkcs5(pbkdf)
	e.Algorithm.Parameters.KDF.Parameters = kdf{Salt: salt, Iterations: 1, KeyLength: sha256.Size, PRF: struct{ ID asn1.ObjectIdentifier }{hmacSHA256()}}
	e.Algorithm.Parameters.Scheme = scheme
	return key, e, nil
}

// passwordCheck encrypts the text by which NSS knows that a password is right.
func passwordCheck(password []byte) ([]byte, error) {
	const text = "password-check\x02\x02" // padded to a block
	// NSS has the encoding of 14 bytes, itself 16 long, for an IV.
	iv := salted("iv")[:aes.BlockSize-2]
	key, e, err := seal(password, "check", pbes, algorithm{ID: aes256(), Parameters: iv})
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("encrypt the password's check: %w", err)
	}
	e.Data = make([]byte, len(text))
	cipher.NewCBCEncrypter(block, slices.Concat([]byte{asn1.TagOctetString, byte(len(iv))}, iv)).CryptBlocks(e.Data, []byte(text))
	return marshal(e)
}

// sign vouches for the value of an attribute (sftkdb_SignAttribute).
func sign(password []byte, id uint32, a attribute, value []byte) ([]byte, error) {
	key, e, err := seal(password, "signature", pbmac, struct{ ID asn1.ObjectIdentifier }{hmacSHA256()})
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(slices.Concat(ulong(id), ulong(uint32(a)), value))
	e.Data = mac.Sum(nil)
	return marshal(e)
}

func marshal(e encrypted) ([]byte, error) {
	der, err := asn1.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode what is derived of a password: %w", err)
	}
	return der, nil
}
