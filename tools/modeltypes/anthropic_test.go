package modeltypes_test

import (
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/bailey-dev/bailey/internal/gateway/anthropic"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
	"github.com/bailey-dev/bailey/tools/modeltypes"
)

const anthropicModule = "github.com/anthropics/anthropic-sdk-go/v2"

// constantsOf are those of a package of a module, by its folder in there.
func constantsOf(t *testing.T, module, dir string) modeltypes.Constants {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	constants, err := modeltypes.ReadConstants(filepath.Join(strings.TrimSpace(string(out)), dir))
	if err != nil {
		t.Fatal(err)
	}
	return constants
}

// itself is a union that the SDK's generator made a list of itself; the API's
// reference has a list of blocks there.
const itself = "messages[].content[]<document>.source<content>.content[]: the SDK sends a "

func TestAnthropic_EverythingIsClassified(t *testing.T) {
	t.Parallel()
	list, err := anthropic.List()
	if err != nil {
		t.Fatal(err)
	}
	constants := constantsOf(t, anthropicModule, "")
	for typ, types := range map[string][]reflect.Type{
		"request": {reflect.TypeFor[sdk.MessageNewParams](), reflect.TypeFor[sdk.BetaMessageNewParams]()},
		"count":   {reflect.TypeFor[sdk.MessageCountTokensParams](), reflect.TypeFor[sdk.BetaMessageCountTokensParams]()},
	} {
		for _, goType := range types {
			for _, missing := range modeltypes.Unclassified(goType, list.Type(typ), constants) {
				if strings.HasPrefix(missing, itself) {
					continue
				}
				t.Errorf("%s: messages.json says nothing of %s", goType.Name(), missing)
			}
		}
	}
}

func TestAnthropic_EveryBetaIsClassified(t *testing.T) {
	t.Parallel()
	list, err := anthropic.List()
	if err != nil {
		t.Fatal(err)
	}
	betas := constantsOf(t, anthropicModule, "")["AnthropicBeta"]
	if len(betas) < 50 {
		t.Fatalf("the SDK names %d betas: they are no longer found", len(betas))
	}
	for _, beta := range betas {
		if list.Judge("beta", beta) == shape.Unknown {
			t.Errorf("messages.json says nothing of the beta %s", beta)
		}
	}
}

// The check finds what a list leaves out, at any depth.
func TestAnthropic_TheCheckCanFail(t *testing.T) {
	t.Parallel()
	list, err := shape.Load([]byte(`{"types":{
	  "request": {"fields": {"model": "string", "max_tokens": "int", "messages": "list message", "stop_sequences": "list int", "thinking": "drop"}},
	  "message": {"fields": {"role": "one of user", "content": "list block"}},
	  "block": {"by": "type", "variants": {"text": {"fields": {"text": "text", "citations": "any"}}, "image": "refuse x: y"}}
	}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	found := strings.Join(modeltypes.Unclassified(reflect.TypeFor[sdk.MessageNewParams](), list.Type("request"), constantsOf(t, anthropicModule, "")), "\n")
	for _, want := range []string{
		`tools: the member`,
		`messages[].role: the value "assistant"`,
		`messages[].content[]: the variant "web_search_tool_result"`,
		`messages[].content[]<text>.cache_control: the member`,
		`stop_sequences[]: the SDK sends a string, and the list takes none`,
	} {
		if !strings.Contains(found, want) {
			t.Errorf("not found: %s", want)
		}
	}
	for _, never := range []string{"thinking: ", `"image"`, "citations", ".text"} {
		if strings.Contains(found, never) {
			t.Errorf("found, though it is classified: %s", never)
		}
	}
}
