package shape

import (
	"net/http"
	"strings"

	"github.com/bailey-dev/bailey/internal/gateway"
)

// Checks are the checks that every file may name. A new map each time.
//
//	data_uri  a data: URI, which holds its bytes; not what a provider would fetch
//	plain     printable ASCII without spaces, up to 256 bytes: ids and names
func Checks() map[string]Check {
	return map[string]Check{"data_uri": dataURI, "plain": plain}
}

// dataURI is a check for bytes in the place of an address (RFC 2397): what stands
// before their comma is a media type and no address of its own.
func dataURI(s string) *gateway.Refusal {
	head, _, found := strings.Cut(s[:min(len(s), mostDataHead)], ",")
	if kind, ok := strings.CutPrefix(strings.ToLower(head), "data:"); ok && found && !strings.ContainsAny(kind, ":?#@%\\ ") && !strings.Contains(kind, "//") {
		return nil
	}
	return &gateway.Refusal{
		Status: http.StatusForbidden,
		Code:   "remote_url_not_allowed",
		Detail: "the provider would fetch this address for the sandbox; send the bytes themselves, as a data: URI",
	}
}

// mostDataHead bounds what stands before the bytes of a data: URI.
const mostDataHead = 256

func plain(s string) *gateway.Refusal {
	ok := s != "" && len(s) <= 256
	for i := 0; ok && i < len(s); i++ {
		ok = s[i] > ' ' && s[i] < 0x7f
	}
	if ok {
		return nil
	}
	return &gateway.Refusal{
		Status: http.StatusBadRequest,
		Code:   "value_not_allowed",
		Detail: "this must be printable ASCII without spaces, of up to 256 bytes",
	}
}
