package spec_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/testkit/netlab"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// insidePolicy opens TLS to allow.test for a rule about requests, and to
// www.allow.test to look at names.
const insidePolicy = `net:
  allow:
  - {host: allow.test, methods: [GET], paths: [/v1/*]}
  - {host: www.allow.test, inspect: true}
  - model.test
`

// javaProgram fetches what its argument names.
const javaProgram = `public class Fetch {
  public static void main(String[] a) throws Exception {
    System.out.print(new String(new java.net.URL(a[0]).openStream().readAllBytes()));
  }
}
`

// insideScript has the clients that people use ask by their usual settings.
// Each line of its output is one answer.
func insideScript() string {
	lines := []string{
		`echo "curl $(curl -sS https://allow.test/v1/x 2>&1)"`,
		`echo "curl1 $(curl -sS --http1.1 https://allow.test/v1/x 2>&1)"`,
		`echo "curlv $(curl -sS -o /dev/null -w '%{http_version} %{ssl_verify_result}' https://allow.test/v1/x 2>&1)"`,
		`echo "curlpost $(curl -sS -X POST -d x https://allow.test/v1/x 2>&1 | head -1)"`,
		`echo "curlpath $(curl -sS https://allow.test/v2/x 2>&1 | head -1)"`,
		`echo "curldots $(curl -sS --path-as-is https://allow.test/v1/../v2/x 2>&1 | head -1)"`,
		`echo "curlspliced $(curl -sS https://model.test/ 2>&1)"`,
		`echo "curlissuer $(curl -sSv https://allow.test/v1/x 2>&1 | grep -c 'bailey root of sandbox')$(curl -sSv https://model.test/ 2>&1 | grep -c 'bailey root of sandbox')"`,
		`echo "node $(node -e 'fetch("https://allow.test/v1/x").then(r => r.text()).then(console.log)' 2>&1)"`,
		`echo "python $(/usr/bin/python3 -c 'import urllib.request as r; print(r.urlopen("https://allow.test/v1/x").read().decode())' 2>&1 | tail -2)"`,
		`echo "git $(git ls-remote https://allow.test/v1/repo.git 2>&1)"`,
		`echo "openssl $(openssl s_client -connect allow.test:443 -servername allow.test -no-CAfile -CApath /etc/ssl/certs </dev/null 2>&1 | grep -m1 'Verify return code')"`,
		`echo "ruby $(ruby -ropen-uri -e 'print URI.open(ARGV[0]).read' https://allow.test/v1/x 2>&1)"`,
		`echo "php $(php -r 'print file_get_contents($argv[1]);' https://allow.test/v1/x 2>&1)"`,
		`echo "perl $(perl -MLWP::UserAgent -e 'print LWP::UserAgent->new->get($ARGV[0])->content' https://allow.test/v1/x 2>&1)"`,
		`echo "wget $(wget -qO- https://allow.test/v1/x 2>&1)"`,
	}
	return strings.Join(lines, "\n")
}

func handleGit(lab *netlab.Lab) {
	lab.Handle("allow.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/repo.git/info/refs" {
			_, _ = fmt.Fprintf(w, "%040d\trefs/heads/main\n", 7)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // else HTTP/2 resets the stream of who still sends
		_, _ = fmt.Fprintf(w, "hello from %s by %s\n", r.Host, r.Proto)
	}))
}

// insideLab is a world that the machine trusts, with the hosts and the rules of
// these tests.
func insideLab(t *testing.T, y *yard.Yard) *netlab.Lab {
	t.Helper()
	lab := netlab.New(t)
	lab.TrustJVM()
	y.Wrap = lab.Enter
	handleGit(lab)
	userPolicy(t, y, insidePolicy)
	return lab
}

// TestEGR14_InsideTLS: rules about requests are kept inside TLS, with the
// programs that people use and without settings of theirs; what cannot be seen
// there does not pass; and the key with which TLS is opened is not inside.
func TestEGR14_InsideTLS(t *testing.T) {
	t.Attr("claim", "EGR-14")
	t.Parallel()
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := insideLab(t, y)
		r := y.Sh(t, insideScript(), "--json")
		const hello, hello1 = "hello from allow.test by HTTP/2.0", "hello from allow.test by HTTP/"
		for _, want := range []string{
			"curl " + hello, "curl1 " + hello1, "curlv 2 0", "curlspliced hello from model.test", "curlissuer 10",
			"node " + hello1, "python " + hello1, "wget " + hello1, "ruby " + hello1, "php " + hello1, "perl " + hello1, "openssl Verify return code: 0 (ok)",
			"git 0000000000000000000000000000000000000007\trefs/heads/main",
			"curlpost bailey refused POST allow.test (port 443): method-not-allowed.",
			"curlpath bailey refused GET allow.test (port 443): path-not-allowed.",
			"curldots bailey refused GET allow.test (port 443): ambiguous-path.", // A145
		} {
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("want %q in:\n%s", want, r.Stdout)
			}
		}
		for _, q := range lab.Requests() {
			if q.Host == "allow.test" && (q.Method != "GET" || !strings.HasPrefix(q.Path, "/v1/") || strings.Contains(q.Path, "..")) {
				t.Errorf("passed on: %s %s", q.Method, q.Path)
			}
		}
		if !slices.ContainsFunc(decisions(t, r), func(e bailey.Event) bool {
			return e.Verdict == "deny" && e.Reason == "path-not-allowed" && e.Protocol == "tls" && e.Method == "GET" && e.Path == "/v2/x"
		}) {
			t.Errorf("no event of the refused request:\n%s", r.Stderr)
		}
		if !strings.Contains(r.Stderr, "inspected: TLS to allow.test, www.allow.test is opened") {
			t.Errorf("the header does not say what is opened:\n%s", r.Stderr)
		}
		// A168: the certificate is inside, its key is nowhere.
		r = y.Sh(t, `grep -rl "PRIVATE KEY" /etc /home /tmp /run /proc/self/environ 2>/dev/null; ls /etc/ssl/bailey; env | grep CERT`).OK(t)
		if strings.Contains(r.Stdout, "/etc/ssl/p") || strings.Contains(r.Stdout, ".pem\n/") || !strings.Contains(r.Stdout, "root.pem") || !strings.Contains(r.Stdout, "SSL_CERT_FILE=") {
			t.Errorf("A168, keys and roots inside:\n%s", r.Stdout)
		}
		// What the caller says outright stays.
		r = y.Sh(t, `echo "$SSL_CERT_FILE"`, "--env", "SSL_CERT_FILE=/mine").OK(t)
		if r.Stdout != "/mine\n" {
			t.Errorf("--env SSL_CERT_FILE: %q", r.Stdout)
		}
		// The twin: without such rules nothing is opened, and everything passes.
		userPolicy(t, y, "net:\n  allow: [allow.test]\n")
		r = y.Sh(t, `curl -sS -X POST -d x https://allow.test/v2/x; ls /etc/ssl/bailey; echo "${SSL_CERT_FILE-unset}"`)
		if !strings.Contains(r.Stdout, hello) || !strings.HasSuffix(r.Stdout, "unset\n") || strings.Contains(r.Stdout, "root.pem") || strings.Contains(r.Stderr, "inspected") {
			t.Errorf("without rules about requests:\n%s%s", r.Stdout, r.Stderr)
		}
	})
}

// javas are those of this machine: one with the store of the system, and one
// with its own, of which a file cannot be put in another's place.
func javas(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("/usr/lib/jvm/*/bin/javac")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, javac := range list {
		if real, err := filepath.EvalSymlinks(javac); err == nil && real == javac {
			out = append(out, filepath.Dir(javac))
		}
	}
	return out
}

// TestEGR14_JavaInsideTLS is for programs of Java, which have stores of their
// own.
func TestEGR14_JavaInsideTLS(t *testing.T) {
	t.Attr("claim", "EGR-14")
	t.Parallel()
	y := yard.Unprivileged(t)
	insideLab(t, y)
	for _, bin := range javas(t) {
		y.Host(t, bin+"/javac", "-d", y.Dir, y.Write(t, "Fetch.java", javaProgram))
		for path, want := range map[string]string{"/v1/x": "hello from allow.test by HTTP/", "/v2/x": "403"} {
			r := y.Sh(t, bin+"/java -XX:TieredStopAtLevel=1 -cp . Fetch https://allow.test"+path+" 2>&1")
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("%s, %s: %s", bin, path, r.Stdout)
			}
		}
	}
}

// TestEGR04_InspectClosesFronting: what is passed untouched can be asked for
// another name inside (A005); where TLS is opened it cannot (A004), and a
// certificate that does not prove the name ends it (A166).
func TestEGR04_InspectClosesFronting(t *testing.T) {
	t.Attr("claim", "EGR-04")
	t.Parallel()
	front := `for v in --http1.1 --http2; do curl -sS $v -o /dev/null -w '%{http_code}\n' -H 'Host: evil.test' https://www.allow.test/; done
curl -sS -o /dev/null -w '%{http_code}\n' https://www.allow.test/`
	yard.Each(t, func(t *testing.T, y *yard.Yard) {
		lab := netlab.New(t)
		lab.Trust()
		y.Wrap = lab.Enter
		userPolicy(t, y, insidePolicy)
		if r := y.Sh(t, front).OK(t); r.Stdout != "421\n421\n200\n" {
			t.Errorf("A004, opened: %q\n%s", r.Stdout, r.Stderr)
		}
		for _, q := range lab.Requests() {
			if q.Host != "www.allow.test" {
				t.Errorf("a request for %s reached a server", q.Host)
			}
		}
		// A program that trusts nobody but the host itself is told apart.
		r := y.Sh(t, "curl -sS --capath /tmp --cacert "+y.Write(t, "lab.pem", string(lab.CA().PEM()))+" https://www.allow.test/")
		if r.Code == 0 || !strings.Contains(r.Stderr, "the program did not trust bailey's certificate") {
			t.Errorf("a client that pins: %d\n%s", r.Code, r.Stderr)
		}
		stayed(t, lab, []netip.AddrPort{onAllowed(443)}, "www.allow.test")
		userPolicy(t, y, "net:\n  allow: [www.allow.test]\n") // the twin
		if r := y.Sh(t, front).OK(t); r.Stdout != "200\n200\n200\n" {
			t.Errorf("A005, passed untouched: %q\n%s", r.Stdout, r.Stderr)
		}
	})
}
