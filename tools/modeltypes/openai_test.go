package modeltypes_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"github.com/bailey-dev/bailey/internal/gateway/openai"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
	"github.com/bailey-dev/bailey/tools/modeltypes"
)

const openaiModule = "github.com/openai/openai-go/v3"

// openaiConstants are those of the packages that requests are made of.
func openaiConstants(t *testing.T) modeltypes.Constants {
	t.Helper()
	all := modeltypes.Constants{}
	for _, dir := range []string{"", "responses", "shared"} {
		maps.Copy(all, constantsOf(t, openaiModule, dir))
	}
	return all
}

// named is a list of tools' names that the SDK has as maps, without their
// members; the API's reference has the choice of one tool there.
const named = "tools[].*: the member"

func TestOpenAI_EverythingIsClassified(t *testing.T) {
	t.Parallel()
	constants := openaiConstants(t)
	for _, c := range []struct {
		file  string
		list  func() (*shape.Shape, error)
		typ   string
		types []reflect.Type
	}{
		{"responses.json", openai.ResponsesList, "request", []reflect.Type{
			reflect.TypeFor[responses.ResponseNewParams](),
			reflect.TypeFor[sdk.BetaResponseNewParams](),
		}},
		{"responses.json", openai.ResponsesList, "count", []reflect.Type{
			reflect.TypeFor[responses.InputTokenCountParams](),
			reflect.TypeFor[sdk.BetaResponseInputTokenCountParams](),
		}},
		{"chat.json", openai.ChatList, "request", []reflect.Type{reflect.TypeFor[sdk.ChatCompletionNewParams]()}},
	} {
		list, err := c.list()
		if err != nil {
			t.Fatal(err)
		}
		for _, goType := range c.types {
			for _, missing := range modeltypes.Unclassified(goType, list.Type(c.typ), constants) {
				if strings.Contains(missing, named) {
					continue
				}
				t.Errorf("%s: %s says nothing of %s", goType.Name(), c.file, missing)
			}
		}
	}
}
