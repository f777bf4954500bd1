package egress

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// covering is a loan that knows one value.
type covering struct{}

func (covering) IDs() []string               { return nil }
func (covering) Apply(*http.Request)         {}
func (covering) Answer(*http.Response) error { return nil }
func (covering) Uses(int) []Use              { return nil }
func (covering) Stale() bool                 { return false }
func (covering) Cover(text string) string    { return strings.ReplaceAll(text, "value", "PH") }

// B049: an error of net/http quotes what a host said in the place of an answer.
func TestLent_ErrorsQuoteNoValue(t *testing.T) {
	t.Parallel()
	err := errors.New("malformed HTTP response: value")
	if got := (&lent{loan: covering{}}).said(err); got != "malformed HTTP response: PH" {
		t.Error("B049:", got)
	}
	var none *lent
	if got := none.said(err); got != err.Error() {
		t.Error(got)
	}
}
