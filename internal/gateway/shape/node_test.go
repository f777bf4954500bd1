package shape_test

import (
	"testing"

	"github.com/bailey-dev/bailey/internal/gateway/document"
	"github.com/bailey-dev/bailey/internal/gateway/shape"
)

func TestNode_GoesThroughAList(t *testing.T) {
	t.Parallel()
	request := load(t, file).Type("request")
	verdict, messages := request.Field("messages")
	if verdict != shape.Keep || !messages.Takes(document.Array) || messages.Takes(document.String) {
		t.Error("messages is no list")
	}
	_, content := messages.Item().Field("content")
	block := content.Item()
	if !content.Any() || block.By() != "type" {
		t.Error("content is neither a text nor a list of blocks")
	}
	verdict, text := block.Variant("text")
	if kept, _ := text.Field("type"); verdict != shape.Keep || kept != shape.Keep {
		t.Error("the member that tells the variant is not known in it")
	}
	if kept, _ := text.Field("nothing"); kept != shape.Unknown {
		t.Error("a member that is not there is known")
	}
	if verdict, _ := block.Variant("upload"); verdict != shape.Refuse {
		t.Error("a refused variant is not")
	}
	_, callers := request.Field("callers")
	if callers.Item().Value("code") != shape.Drop || callers.Item().Value("x") != shape.Unknown || callers.Item().Any() {
		t.Error("the values of a set are others")
	}
	_, labels := request.Field("labels")
	if verdict, label := labels.Field("any name"); verdict != shape.Keep || !label.Any() {
		t.Error("a map does not take any name")
	}
	_, result := block.Variant("result")
	if _, input := result.Field("input"); !input.Free() || content.Free() {
		t.Error("what is free is another")
	}
}

func TestNode_ZeroKnowsNothing(t *testing.T) {
	t.Parallel()
	n := load(t, file).Type("none")
	field, _ := n.Field("x")
	variant, _ := n.Variant("x")
	if n != (shape.Node{}) || field != shape.Unknown || variant != shape.Unknown || n.Value("x") != shape.Unknown ||
		n.Free() || n.Any() || n.Takes(document.Object) || n.By() != "" || n.Item() != (shape.Node{}) {
		t.Error("the zero node knows something")
	}
}
