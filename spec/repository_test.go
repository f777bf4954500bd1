package spec_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/origin"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// TestEGR14_Repositories: a rule for repositories lets git fetch from those
// alone, push where it says so, and nothing else of the host; real git against
// git's own backend, over plain HTTP and HTTPS, whether it knows of the proxy or
// not.
func TestEGR14_Repositories(t *testing.T) {
	t.Attr("claim", "EGR-14")
	t.Parallel()
	const script = `
for how in http https bare; do
	scheme=$how
	[ $how = bare ] && scheme=https && unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
	for url in team/repo.git other/repo.git; do
		git clone -q $scheme://git.test/$url $how/$url 2>$how.err && echo "$how cloned $url" || { echo "$how refused $url"; cat $how.err; }
	done
	cd $how/team/repo.git && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m "from $how"
	git push -q origin HEAD:main 2>../err && echo "$how pushed" || { echo "$how push refused"; cat ../err; }
	cd ../../..; rm -rf $how $how.err
done
curl -sS http://git.test/team/repo.git/HEAD; curl -sS "https://git.test/team/repo.git/info/refs?service=git-upload-pack&x=1"`
	y := yard.Root(t)
	lab := netlab.New(t)
	lab.Trust()
	team, other := origin.NewGit(t), origin.NewGit(t)
	mux := http.NewServeMux()
	mux.Handle("/team/", http.StripPrefix("/team", team))
	mux.Handle("/other/", http.StripPrefix("/other", other))
	lab.Name("git.test", netlab.Allowed)
	lab.Handle("git.test", mux)
	y.Wrap = lab.Enter
	run := func(rule string) yard.Result {
		t.Helper()
		userPolicy(t, y, "net:\n  allow:\n  - {host: git.test"+rule+"}\n")
		return y.Sh(t, script, "--tool", "git", "--tool", "curl")
	}
	has := func(r yard.Result, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(r.Stdout, text) {
				t.Errorf("no %q in\n%s%s", text, r.Stdout, r.Stderr)
			}
		}
	}
	has(run(", git: {repositories: [team/repo]}"),
		"http cloned team/repo.git", "https cloned team/repo.git", "bare cloned team/repo.git",
		"http refused other/repo.git", "https refused other/repo.git", "bare refused other/repo.git",
		"http push refused", "https push refused", "bare push refused", "403",
		"of git.test only git.test git fetch team/repo is allowed, not /team/repo.git/HEAD", "is allowed, not /team/repo.git/info/refs")
	for _, q := range lab.Requests() {
		if q.Path != "/team/repo.git/info/refs?service=git-upload-pack" && q.Path != "/team/repo.git/git-upload-pack" {
			t.Errorf("passed on: %s %s", q.Method, q.Path)
		}
	}
	if got := team.Log(t); got != "first\n" {
		t.Errorf("pushed without write: %q", got)
	}
	has(run(", git: {repositories: [team/repo], write: true}"), "http pushed", "https pushed", "bare pushed", "http refused other/repo.git", "https refused other/repo.git", "bare refused other/repo.git")
	if got := team.Log(t); got != "from bare\nfrom https\nfrom http\nfirst\n" {
		t.Errorf("pushed: %q", got)
	}
	// Twin: without the rule all of it passes.
	has(run(""), "http cloned other/repo.git", "https cloned other/repo.git", "bare cloned other/repo.git", "http pushed", "ref: refs/heads/main")
}
