package modeltypes_test

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/genai"

	"github.com/bailey-dev/bailey/internal/gateway/gemini"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
	"github.com/bailey-dev/bailey/tools/modeltypes"
)

func TestGemini_EverythingIsClassified(t *testing.T) {
	t.Parallel()
	list, err := gemini.List()
	if err != nil {
		t.Fatal(err)
	}
	constants := constantsOf(t, "google.golang.org/genai", "")
	for typ, goType := range map[string]reflect.Type{
		"content":           reflect.TypeFor[genai.Content](),
		"part":              reflect.TypeFor[genai.Part](),
		"tool":              reflect.TypeFor[genai.Tool](),
		"tool_config":       reflect.TypeFor[genai.ToolConfig](),
		"safety_setting":    reflect.TypeFor[genai.SafetySetting](),
		"generation_config": reflect.TypeFor[genai.GenerationConfig](),
	} {
		for _, missing := range modeltypes.Unclassified(goType, list.Type(typ), constants) {
			if strings.Contains(missing, "Offset: the SDK sends a number") {
				continue // a duration, which it writes as a string
			}
			t.Errorf("%s: gemini.json says nothing of %s", goType.Name(), missing)
		}
	}
}

// The SDK's configuration of a call is spread over the request and its
// generationConfig when it is sent.
func TestGemini_TheConfigurationIsClassified(t *testing.T) {
	t.Parallel()
	list, err := gemini.List()
	if err != nil {
		t.Fatal(err)
	}
	config := reflect.TypeFor[genai.GenerateContentConfig]()
	if config.NumField() < 30 {
		t.Fatalf("the SDK has %d fields", config.NumField())
	}
	for i := range config.NumField() {
		name, _, _ := strings.Cut(config.Field(i).Tag.Get("json"), ",")
		if name == "httpOptions" {
			continue // the SDK's own
		}
		above, _ := list.Type("request").Field(name)
		below, _ := list.Type("generation_config").Field(name)
		if above == shape.Unknown && below == shape.Unknown {
			t.Errorf("gemini.json says nothing of %s", name)
		}
	}
}
