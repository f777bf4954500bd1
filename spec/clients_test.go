package spec_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/origin"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// clientText is what a client prints that got what it wanted.
const clientText = "text of the origin"

// client is a program that people use in a sandbox, as it is installed and
// without a setting for bailey.
type client struct {
	name string
	// script does its work with the host $HOST in an empty folder, $PWD, and
	// prints clientText when all of it worked. $FILES is the workspace.
	script string
	// rule allows $HOST; "" is $HOST at 80 and 443.
	rule string
	// alwaysZero: it ends with 0 whatever became of its work.
	alwaysZero bool
	// serve gives the lab the servers of both hosts and the workspace what the
	// script wants. What it returns is called when the sandbox has ended.
	serve func(t *testing.T, y *yard.Yard, lab *netlab.Lab) (after func(t *testing.T))
}

// The two hosts of each client: the servers are the same, the rules are not.
const (
	clientHost = "origin.test"
	deniedHost = "other-origin.test"
)

func clients() []client {
	return []client{
		{
			name:   "curl",
			script: `curl -sS --fail http://$HOST/ && curl -sS --fail https://$HOST/ && curl -sS --fail --http1.1 -d x=1 https://$HOST/`,
			serve:  handled(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(clientText + "\n")) })),
		},
		{name: "git", script: gitScript, serve: serveGit},
		{
			name: "npm",
			// Node has a list of certificates of its own.
			script: `npm install --fetch-retries 0 --no-audit --no-fund --cafile /etc/ssl/certs/ca-certificates.crt --registry "https://$HOST/" tiny && node -e 'console.log(require("tiny"))'`,
			serve: func(t *testing.T, y *yard.Yard, lab *netlab.Lab) func(*testing.T) {
				return handled(origin.NPM(t, clientText))(t, y, lab)
			},
		},
		{
			name: "pip",
			script: python + ` -m pip install --retries 0 --disable-pip-version-check --no-cache-dir --root-user-action ignore --target . --index-url "https://$HOST/simple" tiny &&
				` + python + ` -c 'import tiny; print(tiny.text)'`,
			serve: func(t *testing.T, y *yard.Yard, lab *netlab.Lab) func(*testing.T) {
				return handled(origin.PyPI(t, clientText))(t, y, lab)
			},
		},
		{
			name: "go",
			// What no database of checksums can know is not asked for in one.
			script: `printf 'module w\n\ngo 1.20\n\nrequire tiny.test/m v` + origin.Version + `\n' > go.mod &&
				GOPROXY="https://$HOST" GONOSUMDB=tiny.test GOFLAGS=-mod=mod GOMODCACHE=$PWD/cache go mod download -json tiny.test/m &&
				grep -rh '` + clientText + `' cache`,
			serve: func(t *testing.T, y *yard.Yard, lab *netlab.Lab) func(*testing.T) {
				return handled(origin.GoProxy(t, clientText))(t, y, lab)
			},
		},
		{name: "java", script: `java -cp "$FILES" Get https://$HOST/`, serve: serveJava},
		{
			name:   "psql",
			script: `psql -X -h $HOST -p 5432 -U postgres -At -c "select '` + clientText + `'"`,
			rule:   clientHost + ":5432",
			serve: func(t *testing.T, _ *yard.Yard, lab *netlab.Lab) func(*testing.T) {
				t.Helper()
				origin.Postgres(t, lab.Listen("11.0.0.10:5432"))
				origin.Postgres(t, lab.Listen("11.0.0.66:5432"))
				return nil
			},
		},
		{name: "chromium, A018", script: chromiumScript, serve: serveChromium, alwaysZero: true},
	}
}

// TestEGR02_RealClients runs real programs in a sandbox: with the variables as
// they are there and without any for a proxy they reach the host that a rule
// names. The same command for a host with the same servers that no rule names
// fails, is recorded with its reason and reaches nothing; with a rule for it,
// the twin, it works.
func TestEGR02_RealClients(t *testing.T) {
	t.Attr("claim", "EGR-02")
	t.Parallel()
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			y := yard.Unprivileged(t)
			lab := netlab.New(t)
			if c.name == "java" { // it takes a JVM
				lab.TrustJVM()
			} else {
				lab.Trust()
			}
			lab.Name(clientHost, netlab.Allowed)
			lab.Name(deniedHost, netlab.Evil)
			y.Wrap = lab.Enter
			after := c.serve(t, y, lab)
			rule := c.rule
			if rule == "" {
				rule = clientHost
			}
			c.holds(t, y, lab, rule)
			if after != nil {
				after(t)
			}
			twin := c.run(t, y, "", deniedHost, rule, strings.Replace(rule, clientHost, deniedHost, 1))
			if !strings.Contains(twin.Stdout, clientText) {
				t.Errorf("twin: with a rule for %s it does not work either: %s", deniedHost, twin.Stdout)
			}
		})
	}
}

// withoutProxy takes away what says that there is an explicit proxy.
const withoutProxy = "unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY;"

// holds runs the client and holds what it got to the rule.
func (c client) holds(t *testing.T, y *yard.Yard, lab *netlab.Lab, rule string) {
	t.Helper()
	for how, before := range map[string]string{"the variables as they are": "", "A158 no variables for a proxy": withoutProxy} {
		if r := c.run(t, y, before, clientHost, rule); r.Code != 0 || !strings.Contains(r.Stdout, clientText) {
			t.Errorf("with %s it does not work: %d\n%s\n%s", how, r.Code, r.Stdout, r.Stderr)
		}
	}
	r := c.run(t, y, "", deniedHost, rule)
	if strings.Contains(r.Stdout, clientText) || r.Code == 0 && !c.alwaysZero {
		t.Errorf("it reaches a host that no rule names: %d\n%s", r.Code, r.Stdout)
	}
	if !slices.ContainsFunc(decisions(t, r), func(ev bailey.Event) bool {
		return ev.Verdict == "deny" && ev.Host == deniedHost && ev.Reason == "not-allowed"
	}) {
		t.Errorf("that %s was refused is not recorded:\n%s", deniedHost, r.Stderr)
	}
	for _, conn := range lab.Connections() {
		if conn.To.Addr() == netlab.Evil {
			t.Errorf("%s to %s left the sandbox", conn.Proto, conn.To)
		}
	}
}

// run runs the client's script in a sandbox, in an empty folder.
func (c client) run(t *testing.T, y *yard.Yard, before, host string, rules ...string) yard.Result {
	t.Helper()
	args := []string{"run", "--json", "--env", "HOST=" + host, "--env", "FILES=" + y.Dir}
	for _, r := range rules {
		args = append(args, "--allow", r)
	}
	return y.RunWith(t, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin:"+filepath.Join(goroot(t), "bin"))
	}, append(args, "--", "sh", "-c", before+`cd "$(mktemp -d)"; exec 2>&1; `+c.script)...)
}

// goroot is where the go command of the tests is.
func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// handled serves one handler for both hosts.
func handled(h http.Handler) func(*testing.T, *yard.Yard, *netlab.Lab) func(*testing.T) {
	return func(_ *testing.T, _ *yard.Yard, lab *netlab.Lab) func(*testing.T) {
		lab.Handle(clientHost, h)
		lab.Handle(deniedHost, h)
		return nil
	}
}

const gitScript = `git clone -q https://$HOST/repo.git && cd repo && cat README &&
	git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m second &&
	git push -q origin main && git fetch -q && git log -1 --format=%s origin/main | grep -q second && echo "` + clientText + `"`

func serveGit(t *testing.T, y *yard.Yard, lab *netlab.Lab) func(*testing.T) {
	t.Helper()
	repo := origin.NewGit(t)
	handled(repo)(t, y, lab)
	return func(t *testing.T) {
		t.Helper()
		if got := repo.Log(t); got != "second\nsecond\nfirst\n" {
			t.Errorf("pushed: %q", got)
		}
	}
}

// javaGet asks by both clients of the JVM's own library.
const javaGet = `import java.net.*; import java.net.http.*;
public class Get {
	public static void main(String[] args) throws Exception {
		var uri = URI.create(args[0]);
		var got = HttpClient.newHttpClient().send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
		System.out.println(got.version() + " " + got.body());
		try (var in = uri.toURL().openStream()) { System.out.println(new String(in.readAllBytes())); }
	}
}
`

func serveJava(t *testing.T, y *yard.Yard, lab *netlab.Lab) func(*testing.T) {
	t.Helper()
	y.Write(t, "Get.java", javaGet)
	y.Host(t, "javac", "Get.java")
	return handled(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(clientText + "\n")) }))(t, y, lab)
}

// chromiumScript prints the page when it has loaded. Chromium's own sandbox
// cannot be made inside another one, and certificates of an administrator are
// in the user's NSS database.
const chromiumScript = `export HOME=$PWD
	mkdir -p .pki/nssdb && certutil -d sql:.pki/nssdb -N --empty-password && certutil -d sql:.pki/nssdb -A -t C,, -n lab -i "$FILES/ca.pem" &&
	chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-extensions --disable-background-networking --disable-component-update \
		--user-data-dir=$PWD/profile --dump-dom https://$HOST/ 2>log | sed 's/all of it/` + clientText + `/'`

func serveChromium(t *testing.T, y *yard.Yard, lab *netlab.Lab) func(*testing.T) {
	t.Helper()
	ca, err := os.ReadFile(lab.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	y.Write(t, "ca.pem", string(ca))
	b := origin.NewBrowser()
	handled(b)(t, y, lab)
	return func(t *testing.T) {
		t.Helper()
		one := origin.BrowserReport{Error: "", Fetched: "100000\n", Protocol: "h2", Socket: "ping", Event: "first"}
		if diff := cmp.Diff([]origin.BrowserReport{one, one}, b.Reports()); diff != "" {
			t.Errorf("what the page found (-want +got):\n%s", diff)
		}
	}
}
