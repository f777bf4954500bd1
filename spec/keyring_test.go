package spec_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// keyring is a bus of a session on which only a Secret Service answers
// (specifications.freedesktop.org/secret-service): as much of both as keeps
// texts, without a daemon of either.
type keyring struct {
	address string
	texts   sync.Map // by the object path of an item: item
	next    int
	mu      sync.Mutex
	locked  bool
}

// item is a text of a keyring, and what it is found by.
type item struct {
	attributes map[string]string
	secret     []byte
}

const (
	secretsPath = "/org/freedesktop/secrets"
	loginPath   = dbus.ObjectPath(secretsPath + "/collection/login")
)

func newKeyring(t *testing.T, y *yard.Yard) *keyring {
	t.Helper()
	path := filepath.Join(y.Home, "bus")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, y.UID, y.GID); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	k := &keyring{address: "unix:path=" + path}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.serve(c)
		}
	}()
	return k
}

// serve answers one program: it lets everybody in, and has an answer to each
// call.
func (k *keyring) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	if _, err := in.ReadByte(); err != nil { // the NUL that comes first
		return
	}
	for begun := false; !begun; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		answer := ""
		switch words := strings.Fields(line); {
		case len(words) == 1 && words[0] == "AUTH":
			answer = "REJECTED EXTERNAL\r\n"
		case words[0] == "AUTH" || words[0] == "DATA":
			answer = "OK 00112233445566778899aabbccddeeff\r\n"
		case words[0] == "BEGIN":
			begun = true
		default:
			answer = "ERROR\r\n"
		}
		if _, err := c.Write([]byte(answer)); err != nil {
			return
		}
	}
	for {
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		if err := k.answer(call).EncodeTo(c, binary.LittleEndian); err != nil {
			return
		}
	}
}

func (k *keyring) answer(call *dbus.Message) *dbus.Message {
	body, err := k.call(call)
	reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()),
		dbus.FieldSender:      dbus.MakeVariant("org.freedesktop.DBus"),
	}}
	if err != nil {
		reply.Type = dbus.TypeError
		reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant("org.freedesktop.DBus.Error.Failed")
		body = []any{err.Error()}
	}
	if len(body) > 0 {
		reply.Body = body
		reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	return reply
}

// call does what a method is for.
func (k *keyring) call(m *dbus.Message) ([]any, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	none := dbus.ObjectPath("/")
	switch name, _ := m.Headers[dbus.FieldMember].Value().(string); name {
	case "Hello":
		return []any{":1.1"}, nil
	case "Get": // the property Collections
		return []any{dbus.MakeVariant([]dbus.ObjectPath{loginPath})}, nil
	case "OpenSession":
		return []any{dbus.MakeVariant(""), dbus.ObjectPath(secretsPath + "/session/1")}, nil
	case "Close":
		return nil, nil
	case "Unlock":
		if k.locked {
			return nil, fmt.Errorf("it is locked")
		}
		return []any{m.Body[0], none}, nil
	case "CreateItem":
		k.next++
		at := dbus.ObjectPath(fmt.Sprintf("%s/%d", loginPath, k.next))
		properties, _ := m.Body[0].(map[string]dbus.Variant)
		attributes, _ := properties["org.freedesktop.Secret.Item.Attributes"].Value().(map[string]string)
		parts, _ := m.Body[1].([]any)
		secret, _ := parts[2].([]byte)
		k.texts.Store(at, item{attributes, secret})
		return []any{at, none}, nil
	case "SearchItems":
		wanted, _ := m.Body[0].(map[string]string)
		found := []dbus.ObjectPath{}
		k.texts.Range(func(at, it any) bool {
			if maps.Equal(it.(item).attributes, wanted) {
				found = append(found, at.(dbus.ObjectPath))
			}
			return true
		})
		return []any{found}, nil
	case "GetSecret":
		it, ok := k.texts.Load(path)
		if !ok {
			return nil, fmt.Errorf("no such item")
		}
		return []any{struct {
			Session     dbus.ObjectPath
			Parameters  []byte
			Value       []byte
			ContentType string
		}{"/", nil, it.(item).secret, "text/plain"}}, nil
	case "Delete":
		k.texts.Delete(path)
		return []any{none}, nil
	default:
		return nil, fmt.Errorf("no method %s", name)
	}
}

// held are the texts in the keyring.
func (k *keyring) held() []string {
	var out []string
	k.texts.Range(func(_, it any) bool {
		out = append(out, string(it.(item).secret))
		return true
	})
	slices.Sort(out)
	return out
}

// TestSEC05_TheKeyIsInTheKeyring: the key's file holds its name alone, the
// vault opens with the session's keyring and without it says what is missing;
// a new key takes the old one's place there too.
func TestSEC05_TheKeyIsInTheKeyring(t *testing.T) {
	t.Attr("claim", "SEC-05")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		k, ring := newKeeper(t, y), newKeyring(t, y)
		without := y.Run(t, "secret", "rekey", "--keyring").Exit(t, 125)
		if !strings.Contains(without.Stderr, "no keyring can be reached") || !strings.Contains(without.Stderr, "hint: ") {
			t.Errorf("without a session: %s", without.Stderr)
		}
		y.Wrap = func(c *exec.Cmd) { c.Env = append(c.Env, "DBUS_SESSION_BUS_ADDRESS="+ring.address) }
		y.Run(t, "secret", "rekey", "--keyring").OK(t)
		k.whole(t)
		first := ring.held()
		if len(first) != 1 || len(first[0]) != 64 || strings.Contains(file(t, k.key())+file(t, k.store()), first[0]) {
			t.Errorf("the keyring holds %d texts, or the key is in a file", len(first))
		}
		y.Run(t, "secret", "rekey").OK(t)
		k.whole(t)
		if second := ring.held(); len(second) != 1 || second[0] == first[0] {
			t.Errorf("the keyring holds %d keys, and the old one", len(second))
		}
		ring.mu.Lock()
		ring.locked = true
		ring.mu.Unlock()
		if r := y.Run(t, "secret", "ls").Exit(t, 125); !strings.Contains(r.Stderr, "no keyring can be reached") {
			t.Errorf("a locked keyring: %s", r.Stderr)
		}
		y.Wrap = nil
		if r := y.Run(t, "secret", "ls").Exit(t, 125); !strings.Contains(r.Stderr, "no keyring can be reached") {
			t.Errorf("no session any more: %s", r.Stderr)
		}
		ring.mu.Lock()
		ring.locked = false
		ring.mu.Unlock()
		y.Wrap = func(c *exec.Cmd) { c.Env = append(c.Env, "DBUS_SESSION_BUS_ADDRESS="+ring.address) }
		y.Run(t, "secret", "rekey", "--plain").OK(t)
		if left := ring.held(); len(left) != 0 {
			t.Errorf("the keyring holds %d keys that open nothing", len(left))
		}
		y.Wrap = nil
		k.whole(t)
	})
}
