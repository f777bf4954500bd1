package openai

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"

	"github.com/bailey-dev/bailey/internal/gateway"
	"github.com/bailey-dev/bailey/internal/gateway/document"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
)

//go:embed responses.json
var responsesFile []byte

//go:embed chat.json
var chatFile []byte

// The lists are compiled once, and only those that are used.
var (
	responsesList = sync.OnceValues(func() (*shape.Shape, error) { return shape.Load(responsesFile, checks()) })
	chatList      = sync.OnceValues(func() (*shape.Shape, error) { return shape.Load(chatFile, checks()) })
)

// inline is a check for bytes that may stand bare or in a data: URI, but not at
// an address.
func checks() map[string]shape.Check {
	data := shape.Checks()["data_uri"]
	return map[string]shape.Check{"inline": func(s string) *gateway.Refusal {
		if isBase64(s) {
			return nil
		}
		return data(s)
	}}
}

func isBase64(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '+', c == '/', c == '-', c == '_', c == '=', c == '\r', c == '\n':
		default:
			return false
		}
	}
	return true
}

const models = "/v1/models"

// Responses speaks the Responses API. It is a gateway.Protocol.
type Responses struct {
	list *shape.Shape
	salt []byte
}

// Chat speaks Chat Completions. It is a gateway.Protocol.
type Chat struct {
	list *shape.Shape
	salt []byte
}

var (
	_ gateway.Protocol = (*Responses)(nil)
	_ gateway.Protocol = (*Chat)(nil)
)

// NewResponses returns the dialect, for one task: what names a cache is made a
// name of this value's alone. An error is one of the list that is part of the
// dialect.
func NewResponses() (*Responses, error) {
	list, err := responsesList()
	if err != nil {
		return nil, fmt.Errorf("load the list of responses: %w", err)
	}
	return &Responses{list: list, salt: salt()}, nil
}

// NewChat returns the dialect, for one task, as NewResponses does.
func NewChat() (*Chat, error) {
	list, err := chatList()
	if err != nil {
		return nil, fmt.Errorf("load the list of chat completions: %w", err)
	}
	return &Chat{list: list, salt: salt()}, nil
}

func salt() []byte {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return b
}

// ResponsesList is the list that requests of Responses are judged by, for tests
// that hold it to the types of the provider's own SDK.
func ResponsesList() (*shape.Shape, error) { return responsesList() }

// ChatList is the list that requests of Chat Completions are judged by, for
// tests that hold it to the types of the provider's own SDK.
func ChatList() (*shape.Shape, error) { return chatList() }

// begin parses a request and judges it as the named type.
func begin(list *shape.Shape, typ string, body []byte, state any) (*gateway.Call, error) {
	v, err := gateway.ParseBody(body)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is a *gateway.Refusal
	}
	call := gateway.NewCall(state)
	before := toolsOf(v)
	found, err := list.Walk(typ, v)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is a *gateway.Refusal
	}
	call.Body, call.Input, call.Bound, call.Removed = v, found.Tokens, found.Bound, found.Removed
	call.Removed = append(call.Removed, before.settle(v)...)
	return call, nil
}

// dearPictures is by how much a picture costs more tokens than elsewhere with the
// one model that counts them so: 2833 and 5667 for each of up to 8 tiles.
func dearPictures(call *gateway.Call, pin gateway.Pin) {
	const factor = 3
	if strings.Contains(pin.Name, "gpt-4o-mini") {
		call.Bound = min(call.Bound, math.MaxInt64/factor) * factor
	}
}

// pinned makes a call one for the pinned model.
func pinned(call *gateway.Call, pin gateway.Pin) error {
	dearPictures(call, pin)
	call.Body.Set("model", document.NewString(pin.Name))
	removed, err := pin.Apply(call.Body)
	call.Removed = append(call.Removed, removed...)
	call.Stream = call.Body.Get("stream").IsTrue()
	return err //nolint:wrapcheck // it is a *gateway.Refusal
}

// cacheKey replaces the name by which the provider finds what it has cached. It
// is free text of the client's, and would be shared by all tasks of a key; what
// is sent is as good a name, says nothing, and is this task's alone.
func cacheKey(v *document.Value, salt []byte) {
	key := v.Get("prompt_cache_key")
	if key == nil {
		return
	}
	mac := hmac.New(sha256.New, salt)
	_, _ = mac.Write([]byte(key.Str()))
	v.Set("prompt_cache_key", document.NewString(hex.EncodeToString(mac.Sum(nil)[:16])))
}

// lower sets the members that bound the output to n where they are there and
// above, or sets the first of them where none is. It returns the bound.
func lower(v *document.Value, n int64, members ...string) int64 {
	least := int64(0)
	for _, m := range members {
		asked, ok := v.Get(m).Int()
		if !ok {
			continue
		}
		if asked > n || asked == 0 { // some take nothing for anything
			asked = n
			v.Set(m, document.NewInt(n))
		}
		if least == 0 || asked < least {
			least = asked
		}
	}
	if least == 0 {
		v.Set(members[0], document.NewInt(n))
		least = n
	}
	return least
}

// bound is the least of the members that bound the output; 0 if none is there.
func bound(v *document.Value, members ...string) int64 {
	least := int64(0)
	for _, m := range members {
		if n, ok := v.Get(m).Int(); ok && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// route knows the targets, each byte for byte.
func route(method, target, generate, count string) gateway.Endpoint {
	switch {
	case method == http.MethodPost && target == generate:
		return gateway.Generate
	case method == http.MethodPost && target == count && count != "":
		return gateway.Count
	case method == http.MethodGet:
		return gateway.RouteModels(models, target)
	}
	return gateway.None
}
