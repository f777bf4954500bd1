package run_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/app/run"
)

func TestProxyEnv(t *testing.T) {
	t.Parallel()
	all := run.ProxyEnv("box")
	names := func(env []string) string {
		var out []string
		for _, pair := range env {
			name, _, _ := strings.Cut(pair, "=")
			out = append(out, name)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	for _, want := range []string{"https_proxy=http://192.0.0.1:3128", "HTTP_PROXY=http://192.0.0.1:3128", "no_proxy=localhost,127.0.0.1,::1,127.0.0.0/8,0.0.0.0,box"} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is not in %q", want, all)
		}
	}
	const every = "ALL_PROXY HTTPS_PROXY HTTP_PROXY NO_PROXY all_proxy http_proxy https_proxy no_proxy"
	for _, c := range []struct {
		given []string
		want  string
	}{
		{nil, every},
		{[]string{"PROXY=x", "FTP_PROXY=y"}, every},
		{[]string{"HTTPS_PROXY=http://other.test"}, "ALL_PROXY HTTP_PROXY NO_PROXY all_proxy http_proxy no_proxy"},
		{[]string{"http_proxy="}, "ALL_PROXY HTTPS_PROXY NO_PROXY all_proxy https_proxy no_proxy"},
		{[]string{"all_proxy=x"}, "NO_PROXY no_proxy"},
		{[]string{"No_Proxy=x"}, "ALL_PROXY HTTPS_PROXY HTTP_PROXY all_proxy http_proxy https_proxy"},
	} {
		if got := names(run.GiveWay(all, c.given)); got != c.want {
			t.Errorf("beside %q: %s, want %s", c.given, got, c.want)
		}
	}
	if names(all) != every {
		t.Error("what was given way changed the list itself")
	}
}
