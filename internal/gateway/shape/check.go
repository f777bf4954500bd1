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

func dataURI(s string) *gateway.Refusal {
	if len(s) >= 5 && strings.EqualFold(s[:5], "data:") {
		return nil
	}
	return &gateway.Refusal{
		Status: http.StatusForbidden,
		Code:   "remote_url_not_allowed",
		Detail: "the provider would fetch this address for the sandbox; send the bytes themselves, as a data: URI",
	}
}

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
