package inject_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/inject"
	"github.com/bailey-dev/bailey/internal/seal"
	"github.com/bailey-dev/bailey/internal/secret"
)

// Values and placeholders of the fixture. PH2 begins as all of PH does.
const (
	ph     = "ghp_ZqXwVuTsRpOnMlKjIhGfEdCbAyZxWvUtSrQp"
	value  = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	ph2    = ph + "0123456789"
	value2 = "ghp_anotherValueOfMoreLettersThanThatOne7Q2xxyyzzw"
	phKey  = "AIzaQwErTyUiOpAsDfGhJkLzXcVbNm1234567"
	key    = "AIzaSyD/9tSrke72+PouQMnMX&a7eZSW0jkFM"
	phSid  = "s0000000000000000000000000000000001"
	sid    = "s1234567890abcdefghijklmnopqrstuvwx"
	phGone = "gone000000000000000000000000000000"
)

func host(t testing.TB, name string) secret.Host {
	t.Helper()
	h, err := secret.ParseHost(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func held(t testing.TB) []inject.Held {
	t.Helper()
	at := func(p secret.Place, hosts ...string) secret.Rule {
		r := secret.Rule{Place: p}
		for _, h := range hosts {
			r.Hosts = append(r.Hosts, host(t, h))
		}
		return r
	}
	bearer := at(secret.Place{Kind: secret.Header, Name: "Authorization", Format: "Bearer {}"}, "inj.test", "*.wild.test", "inj.test:8444", "both.test")
	basic := at(secret.Place{Kind: secret.Basic, User: "x-access-token"}, "git.test")
	query := at(secret.Place{Kind: secret.Query, Name: "key"}, "query.test")
	cookie := at(secret.Place{Kind: secret.Cookie, Name: "sid"}, "cookie.test")
	narrow := at(secret.Place{Kind: secret.Header, Name: "X-Api-Key", Format: "{}"}, "narrow.test")
	narrow.Methods, narrow.Paths = []string{"GET"}, []string{"/api/v1"}
	return []inject.Held{
		{ID: "sec_1", Name: "token", Placeholder: ph, Value: seal.NewSecret([]byte(value)), Rules: []secret.Rule{bearer, basic, narrow}},
		{ID: "sec_2", Name: "other", Placeholder: ph2, Value: seal.NewSecret([]byte(value2)), Rules: []secret.Rule{at(secret.Place{Kind: secret.Header, Name: "Authorization", Format: "Bearer {}"}, "inj2.test", "query.test", "both.test")}},
		{ID: "sec_3", Name: "key", Placeholder: phKey, Value: seal.NewSecret([]byte(key)), Rules: []secret.Rule{query}},
		{ID: "sec_4", Name: "sid", Placeholder: phSid, Value: seal.NewSecret([]byte(sid)), Rules: []secret.Rule{cookie}},
		{ID: "sec_5", Name: "gone", Placeholder: phGone, Rules: []secret.Rule{at(secret.Place{Kind: secret.Header, Name: "Authorization", Format: "{}"}, "inj.test")}},
	}
}

func lender(t testing.TB) *inject.Lender {
	t.Helper()
	l := &inject.Lender{}
	if changed, err := l.Adopt(held(t)); err != nil || len(changed) > 0 {
		t.Fatal(changed, err)
	}
	return l
}

// ask makes a request as a server sees it. Fields are "Name: value".
func ask(method, target string, fields ...string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), method, "/", http.NoBody)
	r.Host = "inj.test"
	r.RequestURI = target
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
	for _, f := range fields {
		name, v, _ := strings.Cut(f, ": ")
		r.Header[http.CanonicalHeaderKey(name)] = append(r.Header[http.CanonicalHeaderKey(name)], v)
	}
	return r
}

func to(name string) inject.Target { return inject.Target{Host: name, Port: 443, Secure: true} }

func basicOf(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func percents(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02X", s[i])
	}
	return b.String()
}

// reasonOf lends, and applies what was lent.
func reasonOf(t *testing.T, l *inject.Lender, r *http.Request, at inject.Target) (string, *http.Request) {
	t.Helper()
	loan, err := l.Lend(r, at)
	no, refused := errors.AsType[*inject.Refusal](err)
	switch {
	case refused:
		for _, s := range []string{ph, ph2, phKey, phSid, phGone, value, value2, key, sid} {
			if strings.Contains(no.Detail, s) {
				t.Errorf("the refusal quotes: %s", no.Detail)
			}
		}
		return no.Reason, nil
	case err != nil:
		t.Fatal(err)
	}
	out := r.Clone(t.Context())
	loan.Apply(out)
	return "", out
}

// TestLend is part (b) of the catalogue of attacks, as far as it is about where a
// value may go. Each refusal is beside what is allowed on the same path.
func TestLend(t *testing.T) {
	t.Parallel()
	l := lender(t)
	plain := to("inj.test")
	plain.Secure, plain.Port = false, 80
	port := to("inj.test")
	for _, c := range []struct {
		name   string
		r      *http.Request
		to     inject.Target
		reason string
		want   []string // what goes out: "Name: value", or a query
	}{
		{"twin of all: the rule's form", ask("GET", "/", "Authorization: Bearer "+ph), to("inj.test"), "", []string{"Authorization: Bearer " + value}},
		{"no placeholder", ask("GET", "/", "Authorization: Bearer own"), to("inj.test"), "", []string{"Authorization: Bearer own"}},
		{"B001 by plain HTTP", ask("GET", "/", "Authorization: Bearer "+ph), inject.Target{Host: "allow.test", Port: 80}, inject.ReasonWrongHost, nil},
		{"B001", ask("GET", "/", "Authorization: Bearer "+ph), to("allow.test"), inject.ReasonWrongHost, nil},
		{"B004", ask("GET", "/", "Authorization: Bearer "+ph), plain, inject.ReasonPlain, nil},
		{"B005", ask("GET", "/", "Authorization: Bearer "+ph), func() inject.Target { port.Port = 8443; return port }(), inject.ReasonWrongHost, nil},
		{"B005 the rule's other port", ask("GET", "/", "Authorization: Bearer "+ph), inject.Target{Host: "inj.test", Port: 8444, Secure: true}, "", []string{"Authorization: Bearer " + value}},
		{"B006", ask("GET", "/", "Authorization: Bearer "+ph), to("inj2.test"), inject.ReasonWrongHost, nil},
		{"B009 below a wildcard", ask("GET", "/", "Authorization: Bearer "+ph), to("a.wild.test"), "", []string{"Authorization: Bearer " + value}},
		{"B009 beside it", ask("GET", "/", "Authorization: Bearer "+ph), to("wild.test"), inject.ReasonWrongHost, nil},
		{"B012", ask("POST", "/api/v1/x", "X-Api-Key: "+ph), to("narrow.test"), inject.ReasonNotCovered, nil},
		{"B012 the rule's method", ask("GET", "/api/v1/x", "X-Api-Key: "+ph), to("narrow.test"), "", []string{"X-Api-Key: " + value}},
		{"B012 override header", ask("GET", "/api/v1/x", "X-Api-Key: "+ph, "X-HTTP-Method-Override: DELETE"), to("narrow.test"), "", []string{"X-Http-Method-Override: "}},
		{"B012 _method", ask("GET", "/api/v1/x?%5Fmethod=DELETE", "X-Api-Key: "+ph), to("narrow.test"), inject.ReasonNotCovered, nil},
		{"B012 any spelling", ask("GET", "/api/v1/x?a=1;.method[]=DELETE", "X-Api-Key: "+ph), to("narrow.test"), inject.ReasonNotCovered, nil},
		{"B012 where the rule names no method", ask("GET", "/x?_method=DELETE", "Authorization: Bearer "+ph), to("inj.test"), "", []string{"Authorization: Bearer " + value}},
		{"B012 more overrides", ask("GET", "/api/v1/x?a=1", "X-Api-Key: "+ph, "X-Http-Verb: DELETE", "X-Envoy-Original-Path: /admin", "X-Override-Url: /admin"), to("narrow.test"), "", []string{"X-Http-Verb: ", "X-Envoy-Original-Path: ", "X-Override-Url: "}},
		{"another destination", ask("GET", "/api/v1/x", "X-Api-Key: "+ph, "Destination: /admin"), to("narrow.test"), inject.ReasonNotCovered, nil},
		{"a destination elsewhere", ask("GET", "/api/v1/x", "X-Api-Key: "+ph, "Destination: https://allow.test/api/v1/y"), to("narrow.test"), inject.ReasonNotCovered, nil},
		{"a destination of the rule", ask("GET", "/api/v1/x", "X-Api-Key: "+ph, "Destination: https://inj.test/api/v1/y"), to("narrow.test"), "", []string{"X-Api-Key: " + value, "Destination: https://inj.test/api/v1/y"}},
		{"copy", ask("GET", "/api/v1/x", "X-Api-Key: "+ph, "X-Amz-Copy-Source: /api/v1/y"), to("narrow.test"), inject.ReasonNotCovered, nil},
		{"copy where the rule names no path", ask("PUT", "/x", "Authorization: Bearer "+ph, "X-Amz-Copy-Source: /b/k"), to("inj.test"), "", []string{"Authorization: Bearer " + value, "X-Amz-Copy-Source: /b/k"}},
		{"another path", ask("GET", "/api/v10", "X-Api-Key: "+ph), to("narrow.test"), inject.ReasonNotCovered, nil},
		{"dots", ask("GET", "/api/v1/%2e%2e/admin", "X-Api-Key: "+ph), to("narrow.test"), inject.ReasonNotCovered, nil},
		{"B017 Cookie", ask("GET", "/", "Cookie: a="+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B017 Proxy-Authorization", ask("GET", "/", "Proxy-Authorization: Bearer "+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B017 Referer", ask("GET", "/", "Referer: https://inj.test/?t="+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B017 User-Agent", ask("GET", "/", "User-Agent: "+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B017 name of a field", ask("GET", "/", "X-"+ph+": 1"), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B018 twice", ask("GET", "/", "Authorization: Bearer "+ph, "Authorization: Bearer "+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B018 beside its own", ask("GET", "/", "Authorization: Bearer own", "Authorization: Bearer "+ph), to("inj.test"), "", []string{"Authorization: Bearer " + value}},
		{"B018 as a variable", ask("GET", "/api/v1", "X-Api-Key: "+ph, "X_Api_Key: own"), to("narrow.test"), "", []string{"X-Api-Key: " + value, "X_api_key: "}},
		{"B024 PH", ask("GET", "/", "Authorization: "+ph), to("inj.test"), "", []string{"Authorization: Bearer " + value}},
		{"B024 token PH", ask("GET", "/", "Authorization: token "+ph), to("inj.test"), "", []string{"Authorization: Bearer " + value}},
		{"B024 Key PH,other", ask("GET", "/", "Authorization: Key "+ph+",other"), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B024 PH twice", ask("GET", "/", "Authorization: Bearer "+ph+" "+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B024 no scheme", ask("GET", "/", "Authorization: a,b "+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"two secrets of one field", ask("GET", "/", "Authorization: Bearer "+ph, "Authorization: Bearer "+ph2), to("both.test"), inject.ReasonMisplaced, nil},
		{"one of two", ask("GET", "/", "Authorization: Bearer "+ph2), to("both.test"), "", []string{"Authorization: Bearer " + value2}},
		{"B024 xPHy", ask("GET", "/", "Authorization: Bearer x"+ph+"y"), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B024 two spaces", ask("GET", "/", "Authorization: Bearer  "+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B025", ask("GET", "/", "Authorization: Basic "+basicOf("x-access-token:"+ph)), to("git.test"), "", []string{"Authorization: Basic " + basicOf("x-access-token:"+value)}},
		{"B025 another user", ask("GET", "/", "Authorization: Basic "+basicOf("me:"+ph)), to("git.test"), "", []string{"Authorization: Basic " + basicOf("x-access-token:"+value)}},
		{"B025 no user", ask("GET", "/", "Authorization: Basic "+basicOf(":"+ph)), to("git.test"), "", []string{"Authorization: Basic " + basicOf("x-access-token:"+value)}},
		{"B025 lower case", ask("GET", "/", "Authorization: basic "+basicOf("me:"+ph)), to("git.test"), inject.ReasonMisplaced, nil},
		{"B025 two spaces", ask("GET", "/", "Authorization: Basic  "+basicOf("me:"+ph)), to("git.test"), inject.ReasonMisplaced, nil},
		{"B025 no padding", ask("GET", "/", "Authorization: Basic "+strings.TrimRight(basicOf("me:"+ph), "=")), to("git.test"), inject.ReasonMisplaced, nil},
		{"B025 trailing bits", ask("GET", "/", "Authorization: Basic "+trailingBits(basicOf("me:"+ph))), to("git.test"), inject.ReasonMisplaced, nil},
		{"B025 10 KiB", ask("GET", "/", "Authorization: Basic "+basicOf(strings.Repeat("u", 10<<10)+":"+ph)), to("git.test"), inject.ReasonMisplaced, nil},
		{"B025 more behind", ask("GET", "/", "Authorization: Basic "+basicOf("me:"+ph+"x")), to("git.test"), inject.ReasonMisplaced, nil},
		{"B025 for its user", ask("GET", "/", "Authorization: Basic "+basicOf(ph+":x")), to("git.test"), inject.ReasonMisplaced, nil},
		{"B025 where the rule is a header", ask("GET", "/", "Authorization: Basic "+basicOf("me:"+ph)), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B025 a header where the rule is Basic", ask("GET", "/", "Authorization: Bearer "+ph), to("git.test"), inject.ReasonMisplaced, nil},
		{"very often", ask("GET", "/"+strings.Repeat(ph+"/", 1500), "Authorization: Bearer "+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B026 query", ask("GET", "/?a=1&key="+phKey+"&b=%2x"), to("query.test"), "", []string{"?a=1&key=AIzaSyD%2F9tSrke72%2BPouQMnMX%26a7eZSW0jkFM&b=%2x"}},
		{"B026 escaped", ask("GET", "/?key="+percents(phKey)), to("query.test"), "", []string{"?key=AIzaSyD%2F9tSrke72%2BPouQMnMX%26a7eZSW0jkFM"}},
		{"B026 escaped twice", ask("GET", "/?key="+strings.ReplaceAll(percents(phKey), "%", "%25")), to("query.test"), inject.ReasonMisplaced, nil},
		{"B026 twice", ask("GET", "/?key="+phKey+"&key="+phKey), to("query.test"), inject.ReasonMisplaced, nil},
		{"B026 a second key in disguise", ask("GET", "/?key="+phKey+"&%6Bey=own"), to("query.test"), inject.ReasonMisplaced, nil},
		{"B026 the key in disguise", ask("GET", "/?%6Bey="+phKey), to("query.test"), inject.ReasonMisplaced, nil},
		{"B026 its own besides", ask("GET", "/?key="+phKey+"&key=own"), to("query.test"), inject.ReasonMisplaced, nil},
		{"B036 its own besides", ask("GET", "/", "Cookie: sid="+phSid+"; sid=own"), to("cookie.test"), inject.ReasonMisplaced, nil},
		{"B026 another key", ask("GET", "/?kez="+phKey), to("query.test"), inject.ReasonMisplaced, nil},
		{"B026 as a key", ask("GET", "/?"+phKey+"=key"), to("query.test"), inject.ReasonMisplaced, nil},
		{"B026 within", ask("GET", "/?key=x"+phKey), to("query.test"), inject.ReasonMisplaced, nil},
		{"B026 semicolon", ask("GET", "/?a=1;key="+phKey), to("query.test"), inject.ReasonMisplaced, nil},
		{"B026 path", ask("GET", "/"+percents(phKey)+"?a"), to("query.test"), inject.ReasonMisplaced, nil},
		{"B026 two secrets", ask("GET", "/?key="+phKey, "Authorization: Bearer "+ph2), to("query.test"), "", []string{"?key=AIzaSyD%2F9tSrke72%2BPouQMnMX%26a7eZSW0jkFM", "Authorization: Bearer " + value2}},
		{"B034 path", ask("GET", "/"+ph, "Authorization: Bearer "+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B034 method", ask(ph, "/"), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B034 userinfo", ask("GET", "https://me:"+ph+"@inj.test/"), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B034 base64 in the path", ask("GET", "/"+basicOf("ab"+ph)), to("inj.test"), inject.ReasonMisplaced, nil},
		{"cookie", ask("GET", "/", "Cookie: a=1; sid="+phSid+"; b=2"), to("cookie.test"), "", []string{"Cookie: a=1; sid=" + sid + "; b=2"}},
		{"B036 crumbs", ask("GET", "/", "Cookie: a=1", "Cookie: sid="+phSid), to("cookie.test"), "", []string{"Cookie: a=1|sid=" + sid}},
		{"B036 twice", ask("GET", "/", "Cookie: sid="+phSid, "Cookie: sid="+phSid), to("cookie.test"), inject.ReasonMisplaced, nil},
		{"cookie of another name", ask("GET", "/", "Cookie: side="+phSid), to("cookie.test"), inject.ReasonMisplaced, nil},
		{"cookie within", ask("GET", "/", `Cookie: sid="`+phSid+`"`), to("cookie.test"), inject.ReasonMisplaced, nil},
		{"B040 one is the beginning of the other", ask("GET", "/", "Authorization: Bearer "+ph2), to("inj2.test"), "", []string{"Authorization: Bearer " + value2}},
		{"B040 the other's host", ask("GET", "/", "Authorization: Bearer "+ph2), to("inj.test"), inject.ReasonWrongHost, nil},
		{"B061", ask("GET", "/", "Authorization: Bearer "+ph, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Extensions: permessage-deflate"), to("inj.test"), "", []string{"Authorization: Bearer " + value, "Sec-Websocket-Extensions: "}},
		{"B061 as a subprotocol", ask("GET", "/", "Sec-WebSocket-Protocol: bearer."+ph), to("inj.test"), inject.ReasonMisplaced, nil},
		{"B064", ask("POST", "/svc/Call", "Authorization: Bearer "+ph, "Content-Type: application/grpc"), to("inj.test"), "", []string{"Authorization: Bearer " + value}},
		{"B064 -bin", ask("POST", "/svc/Call", "X-Token-Bin: "+basicOf("\x00\x01"+ph)), to("inj.test"), inject.ReasonMisplaced, nil},
		{"withdrawn", ask("GET", "/", "Authorization: "+phGone), to("inj.test"), inject.ReasonWithdrawn, nil},
		{"B046", ask("GET", "/", "Authorization: Bearer "+ph, "Range: bytes=0-0", "If-Range: x"), to("inj.test"), "", []string{"Range: ", "If-Range: "}},
		{"B046 other servers' fields", ask("GET", "/", "Authorization: Bearer "+ph, "Request-Range: bytes=0-0", "X-Ms-Range: bytes=0-0", "X_range: 0", "Content-Range: bytes 0-0/9"), to("inj.test"), "", []string{"Request-Range: ", "X-Ms-Range: ", "X_range: ", "Content-Range: "}},
		{"B046 of an upload", ask("PUT", "/", "Authorization: Bearer "+ph, "Content-Range: bytes 0-9/*", "X-Amz-Copy-Source-Range: bytes=0-9", "Accept-Ranges: x"), to("inj.test"), "", []string{"Content-Range: bytes 0-9/*", "X-Amz-Copy-Source-Range: bytes=0-9", "Accept-Ranges: x"}},
		{"B046 of no upload", ask("PUT", "/", "Authorization: Bearer "+ph, "Content-Range: bytes=0-9", "Content_range: bytes 0-9/*"), to("inj.test"), "", []string{"Content-Range: ", "Content_range: "}},
		{"B046 how much of an upload is there", ask("PUT", "/", "Authorization: Bearer "+ph, "Content-Range: bytes */100"), to("inj.test"), "", []string{"Content-Range: bytes */100"}},
		{"B046 without a value", ask("GET", "/", "Range: bytes=0-0"), to("inj.test"), "", []string{"Range: bytes=0-0"}},
		{"B044", ask("GET", "/", "Accept-Encoding: gzip, br, zstd, dcb"), to("inj.test"), "", []string{"Accept-Encoding: identity"}},
		{"B044 a host of no secret", ask("GET", "/", "Accept-Encoding: gzip, br, zstd, dcb"), to("allow.test"), "", []string{"Accept-Encoding: gzip, br, zstd, dcb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			reason, out := reasonOf(t, l, c.r, c.to)
			if reason != c.reason {
				t.Fatalf("%q, want %q", reason, c.reason)
			}
			for _, w := range c.want {
				if query, ok := strings.CutPrefix(w, "?"); ok {
					if out.URL.RawQuery != query {
						t.Errorf("query %s, want %s", out.URL.RawQuery, query)
					}
					continue
				}
				name, v, _ := strings.Cut(w, ": ")
				if got := strings.Join(out.Header[name], "|"); got != v {
					t.Errorf("%s: %q, want %q", name, got, v)
				}
			}
		})
	}
}

// trailingBits sets bits that a decoder may overlook.
func trailingBits(s string) string {
	body := strings.TrimRight(s, "=")
	if body == s {
		return s + "===="
	}
	return body[:len(body)-1] + string(body[len(body)-1]+1) + s[len(body):]
}

// B008: what is almost a placeholder is text like any other, and goes out.
func TestLend_AlmostAPlaceholder(t *testing.T) {
	t.Parallel()
	l := lender(t)
	for i := range len(ph) {
		b := []byte(ph)
		b[i] ^= 1
		if reason, out := reasonOf(t, l, ask("GET", "/", "Authorization: Bearer "+string(b)), to("inj.test")); reason != "" || out.Header.Get("Authorization") != "Bearer "+string(b) {
			t.Errorf("B008, %s: %s %v", b, reason, out)
		}
	}
}

// B041: what is put in is not looked at again.
func TestApply_IsOnePass(t *testing.T) {
	t.Parallel()
	h := held(t)
	h[0].Value = seal.NewSecret([]byte("v-" + phKey))
	l := &inject.Lender{}
	if _, err := l.Adopt(h); err != nil {
		t.Fatal(err)
	}
	_, out := reasonOf(t, l, ask("GET", "/", "Authorization: Bearer "+ph), to("inj.test"))
	if got := out.Header.Get("Authorization"); got != "Bearer v-"+phKey {
		t.Error("B041:", got)
	}
}

func TestLoan_SaysWhatItCarries(t *testing.T) {
	t.Parallel()
	l := lender(t)
	loan, err := l.Lend(ask("GET", "/api/v1/things?x=1", "X-Api-Key: "+ph), to("narrow.test"))
	if err != nil {
		t.Fatal(err)
	}
	want := []inject.Use{{ID: "sec_1", Name: "token", Host: "narrow.test", Port: 443, Method: "GET", Class: "/api/v1", Status: 200}}
	if d := cmp.Diff(want, loan.Uses(200)); d != "" || !slices.Equal(loan.IDs(), []secret.ID{"sec_1"}) {
		t.Error(d, loan.IDs())
	}
	none, err := l.Lend(ask("GET", "/"), to("narrow.test"))
	if err != nil || len(none.IDs()) > 0 || len(none.Uses(200)) > 0 {
		t.Error(none.IDs(), err)
	}
}

func TestLender_ZeroLendsNothing(t *testing.T) {
	t.Parallel()
	var l inject.Lender
	r := ask("GET", "/", "Authorization: Bearer "+ph, "Accept-Encoding: gzip")
	loan, err := l.Lend(r, to("inj.test"))
	if err != nil {
		t.Fatal(err)
	}
	loan.Apply(r)
	res := answer(200, value)
	if err := loan.Answer(res); err != nil || r.Header.Get("Authorization") != "Bearer "+ph || r.Header.Get("Accept-Encoding") != "gzip" || text(t, res) != value {
		t.Error(err, r.Header)
	}
}

// D080, T21: what was rotated or withdrawn is what the next request gets, and
// what was is kept out of answers.
func TestAdopt(t *testing.T) {
	t.Parallel()
	l := lender(t)
	early := loanFor(t, l, "GET", "inj.test")
	h := held(t)
	const rotated = "ghp_99999999999999999999999999999999abcd"
	h[0].Value = seal.NewSecret([]byte(rotated))
	h[2].Rules[0].Hosts = []secret.Host{host(t, "query2.test")}
	changed, err := l.Adopt(append(h[:3:3], h[4])) // without sid
	if err != nil || !slices.Equal(changed, []secret.ID{"sec_1", "sec_3", "sec_4"}) {
		t.Fatal(changed, err)
	}
	if again, err := l.Adopt(append(h[:3:3], h[4])); err != nil || len(again) > 0 {
		t.Error(again, err)
	}
	if reason, out := reasonOf(t, l, ask("GET", "/", "Authorization: Bearer "+ph), to("inj.test")); reason != "" || out.Header.Get("Authorization") != "Bearer "+rotated {
		t.Error(reason, out)
	}
	if reason, _ := reasonOf(t, l, ask("GET", "/?key="+phKey), to("query.test")); reason != inject.ReasonWrongHost {
		t.Error(reason)
	}
	if reason, _ := reasonOf(t, l, ask("GET", "/", "Cookie: sid="+phSid), to("cookie.test")); reason != inject.ReasonWithdrawn {
		t.Error(reason)
	}
	for _, loan := range []*inject.Loan{early, loanFor(t, l, "GET", "inj.test")} {
		res := answer(200, value+" "+rotated)
		if err := loan.Answer(res); err != nil {
			t.Fatal(err)
		}
		if got := text(t, res); got != ph+" "+ph {
			t.Error(got)
		}
	}
	for at, want := range map[string]string{"cookie.test": phSid, "query.test": phKey, "query2.test": phKey} {
		res := answer(200, map[string]string{phSid: sid, phKey: key}[want])
		if err := loanFor(t, l, "GET", at).Answer(res); err != nil {
			t.Fatal(err)
		}
		if got := text(t, res); got != want {
			t.Error(at, got)
		}
	}
}

// B028, and values that could not be kept out of answers: they are refused when
// they come, and what was there before stays.
func TestAdopt_RefusesWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*inject.Held){
		"B028 line feed":    func(h *inject.Held) { h.Value = seal.NewSecret([]byte(value + "\n")) },
		"B028 CR LF":        func(h *inject.Held) { h.Value = seal.NewSecret([]byte("x\r\nX-Evil: 1234567")) },
		"short value":       func(h *inject.Held) { h.Value = seal.NewSecret([]byte("1234567")) },
		"short former":      func(h *inject.Held) { h.Former = []seal.Secret{seal.NewSecret([]byte("1234567"))} },
		"short placeholder": func(h *inject.Held) { h.Placeholder = "abcdefgh" },
		"no place":          func(h *inject.Held) { h.Rules[0].Place = secret.Place{} },
		"no host":           func(h *inject.Held) { h.Rules[0].Hosts = nil },
	} {
		l := lender(t)
		h := held(t)
		change(&h[0])
		_, err := l.Adopt(h)
		if err == nil {
			t.Errorf("%s is taken", name)
			continue
		}
		if strings.Contains(err.Error(), value) || strings.Contains(err.Error(), "X-Evil") {
			t.Errorf("%s: %v", name, err)
		}
		if reason, out := reasonOf(t, l, ask("GET", "/", "Authorization: Bearer "+ph), to("inj.test")); reason != "" || out.Header.Get("Authorization") != "Bearer "+value {
			t.Errorf("%s: then %s", name, reason)
		}
	}
}

// T17, B029, B030, B032: a placeholder in a body ends it, in whatever form and
// pieces, and before it went out.
func TestApply_EndsBodiesWithPlaceholders(t *testing.T) {
	t.Parallel()
	l := lender(t)
	u16 := func(s string) string { return strings.Join(strings.Split(s, ""), "\x00") + "\x00" }
	for name, b := range map[string]string{
		"B029 raw":     `{"token":"` + ph + `"}`,
		"B029 escapes": `{"token":"\u0067hp_` + ph[4:] + `"}`,
		"B030 form":    "a=1&token=" + percents(ph),
		"B030 base64":  `{"blob":"` + basicOf("xy"+ph) + `"}`,
		"B030 UTF-16":  u16(ph),
		"B030 XML":     "<a>&#103;hp_" + ph[4:] + "</a>",
		"B032":         "\r\nAuthorization: Bearer " + ph,
		"multipart":    "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n" + ph + "\r\n--x--\r\n",
		"at a border":  strings.Repeat("x", 32<<10-5) + ph,
	} {
		for _, at := range []string{"inj.test", "allow.test"} {
			for _, step := range []int{1, 3, 7, 1 << 20} {
				sent, err := send(t, l, b, at, step)
				no, ok := errors.AsType[*inject.Refusal](err)
				if !ok || no.Reason != map[string]string{"inj.test": inject.ReasonMisplaced, "allow.test": inject.ReasonWrongHost}[at] {
					t.Errorf("%s to %s: %v", name, at, err)
				}
				if strings.Contains(sent, ph[:5]) || strings.Contains(sent, ph[20:]) {
					t.Errorf("%s to %s: %q went out", name, at, sent)
				}
				almost := strings.ReplaceAll(strings.ReplaceAll(b, ph, ph[:30]), ph[4:], ph[4:30])
				if almost == b {
					almost = b[:len(b)/3]
				}
				if sent, err := send(t, l, almost, at, step); err != nil || sent != almost {
					t.Errorf("%s, almost: %v", name, err)
				}
			}
		}
	}
}

type slow struct {
	r    io.Reader
	step int
}

func (s slow) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.step)]) }

// send returns what of a body goes out.
func send(t *testing.T, l *inject.Lender, b, at string, step int) (string, error) {
	t.Helper()
	r := ask("POST", "/")
	loan, err := l.Lend(r, to(at))
	if err != nil {
		t.Fatal(err)
	}
	out := r.Clone(t.Context())
	out.Body = io.NopCloser(slow{strings.NewReader(b), step})
	loan.Apply(out)
	sent, err := io.ReadAll(out.Body)
	return string(sent), err
}

// B033: fields behind the body.
func TestApply_EndsAtTrailers(t *testing.T) {
	t.Parallel()
	l := lender(t)
	for v, bad := range map[string]bool{ph: true, "checksum": false} {
		r := ask("POST", "/")
		loan, err := l.Lend(r, to("inj.test"))
		if err != nil {
			t.Fatal(err)
		}
		out := r.Clone(t.Context())
		out.Body = io.NopCloser(strings.NewReader("body"))
		loan.Apply(out)
		r.Trailer = http.Header{"X-Sum": {v}} // as net/http does behind the body
		if _, err := io.ReadAll(out.Body); (err != nil) != bad {
			t.Errorf("B033, %s: %v", v, err)
		}
	}
}

// FuzzPlace: whatever stands in a place, a value goes out only in the rule's
// form, and no placeholder does.
func FuzzPlace(f *testing.F) {
	f.Add("Bearer "+ph, "key="+phKey, "sid="+phSid)
	f.Add("Basic "+basicOf("me:"+ph), "key="+percents(phKey)+"&x", "a; sid="+phSid)
	f.Add(ph+ph, "&&key="+phKey+"&%6bey=", `sid = "`+phSid)
	l := lender(f)
	f.Fuzz(func(t *testing.T, authorization, query, cookie string) {
		for _, at := range []string{"inj.test", "git.test", "query.test", "cookie.test", "allow.test"} {
			r := ask("GET", "/?"+query, "Authorization: "+authorization, "Cookie: "+cookie)
			reason, out := reasonOf(t, l, r, to(at))
			if reason != "" {
				continue
			}
			all := out.Header.Get("Authorization") + "\n" + out.URL.RawQuery + "\n" + out.Header.Get("Cookie")
			if strings.Contains(all, ph) || strings.Contains(all, phKey) || strings.Contains(all, phSid) {
				t.Fatalf("to %s goes %q", at, all)
			}
			if got := out.Header.Get("Authorization"); got != authorization && got != "Bearer "+value && got != "Basic "+basicOf("x-access-token:"+value) {
				t.Fatalf("to %s goes %q", at, got)
			}
			if got := out.URL.RawQuery; got != query && (at != "query.test" || strings.Count(got, "AIzaSyD%2F9tSrke72%2BPouQMnMX%26a7eZSW0jkFM") != 1) {
				t.Fatalf("to %s goes %q", at, got)
			}
			if got := out.Header.Get("Cookie"); got != cookie && (at != "cookie.test" || strings.Count(got, "sid="+sid) != 1) {
				t.Fatalf("to %s goes %q", at, got)
			}
		}
	})
}
