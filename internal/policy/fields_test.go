package policy_test

import (
	"slices"
	"testing"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
)

// A key that some server takes for another method is known in every
// spelling, and one that none takes for that is not.
func TestOverridesMethod(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]bool{
		"_method=DELETE": true, "%5Fmethod=DELETE": true, "_METHOD=x": true, "_method": true, "a=1&_method=DELETE": true,
		".method=DELETE": true, "[method=DELETE": true, "%5Bmethod=DELETE": true, "+_method=DELETE": true, "%20_method=DELETE": true,
		"_method%00=DELETE": true, "_method%00x=DELETE": true, "_method%00%zz=DELETE": true, "a=1;_method=DELETE": true,
		"_method[]=DELETE": true, "_method%5B0%5D=DELETE": true, "_method[x][y]=DELETE": true, "[method[x]=DELETE": true, "++_method[x]=DELETE": true,
		"_HttpMethod=DELETE": true, "$httpMethod=DELETE": true, "%24httpMethod=DELETE": true, "x-http-method-override=DELETE": true,
		"X_HTTP_Method=DELETE": true, "methodOverride=x": true, "_httpVerb=x": true, "method=delete": true, "%u005fmethod=x": true, "?_method=x": true,
		"": false, "a=1": false, "a=_method": false, "a=_method=DELETE": false, "methods=x": false, "payment_method=card": false, "verb=ListRecords": false,
		"a[_method]=x": false, "url=x": false, "%zz=x": false, "methodology": false,
	} {
		if got := policy.OverridesMethod(query); got != want {
			t.Errorf("%q: %v", query, got)
		}
	}
}

func TestIsOverride(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Method", "X-Forwarded-Method", "X-Method", "X-Http-Verb", "X-Verb", "Method",
		"X_method_override", "X.http.method", "Xhttpmethod", "X-Http-Verb-Override", "X-Override-Method", "X-Real-Method",
		"X-Original-Url", "X-Original-Uri", "X-Rewrite-Url", "X-Rewrite-Uri", "X-Forwarded-Uri", "X-Forwarded-Url", "X-Forwarded-Path", "X-Forwarded-Prefix", "X-Override-Url",
		"X-Envoy-Original-Path", "X-Http-Destinationurl", "X-Http-Path-Override", "X-Url-Override", "X-Replaced-Path", "X-Request-Uri", "Request-Uri",
		"Script_name", "X-Script-Name", "X-Forwarded-Script-Name", "Path-Info",
	} {
		if !policy.IsOverride(name) {
			t.Errorf("%s is none", name)
		}
	}
	for _, name := range []string{
		"Access-Control-Request-Method", "Access-Control-Request-Headers", "X-Requested-With", "X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-Ip",
		"Referer", "Origin", "X-Api-Path", "X-Url", "X-Payment-Method", "Verb", "Destination", "Authorization", "Content-Location", "X-Override",
	} {
		if policy.IsOverride(name) {
			t.Errorf("%s is one", name)
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"Destination", "/dav/b", []string{"/dav/b"}},
		{"Destination", "https://a.test/dav/b", []string{"/dav/b"}},
		{"Destination", "http://A.test/dav/b", []string{"/dav/b"}},
		{"Destination", "https://b.test/dav/b", []string{""}},
		{"Destination", "https://me@a.test/dav/b", []string{""}},
		{"Destination", "https://a.test:444/dav/b", []string{""}},
		{"Destination", "https://a.test", []string{""}},
		{"Destination", "container/b", []string{"container/b"}},
		{"X-Amz-Copy-Source", "/bucket/key", []string{""}},
		{"X_ms_copy_source", "https://a.test/x", []string{""}},
		{"X-Amz-Rename-Source", "/bucket/key", []string{""}},
		{"X-Copy-From", "/c/o", []string{""}},
		{"X-Amz-Copy-Source-If-Match", "x", nil},
		{"Destination-Type", "x", nil},
		{"Referer", "https://a.test/", nil},
	} {
		if got := policy.Targets(map[string][]string{c.name: {c.value}}, "a.test"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s: %q, want %q", c.name, c.value, got, c.want)
		}
	}
}

// What a query or a field asks for is held to the rules too.
func TestDecide_WhatARequestAsksForBesides(t *testing.T) {
	t.Parallel()
	p := policy.Policy{
		Mode: bailey.NetAllow,
		Allow: []policy.Rule{
			narrowed(t, "api.test", policy.Narrow{Methods: []string{"POST"}}),
			narrowed(t, "dav.test", policy.Narrow{Paths: []string{"/me/*"}}),
			narrowed(t, "git.test", policy.Narrow{Repositories: []string{"a/b"}}),
			{Host: "part.test"},
			{Host: "del.test"},
			{Host: "free.test"},
		},
		Deny: []policy.Rule{
			narrowed(t, "part.test", policy.Narrow{Paths: []string{"/admin/*"}}),
			narrowed(t, "del.test", policy.Narrow{Methods: []string{"DELETE"}}),
		},
	}
	for _, c := range []struct {
		host, method, path, query string
		targets                   []string
		reason                    string
	}{
		{"api.test", "POST", "/x", "a=1", nil, ""},
		{"api.test", "POST", "/x", "a=1;.method=DELETE", nil, policy.ReasonMethod},
		{"api.test", "POST", "/x", "", []string{"/y"}, ""}, // its rule is not about paths
		{"api.test", "POST", "/x", "", []string{""}, ""},
		{"dav.test", "MOVE", "/me/a", "", []string{"/me/b"}, ""},
		{"dav.test", "MOVE", "/me/a", "", []string{"/you/b"}, policy.ReasonPath},
		{"dav.test", "MOVE", "/me/a", "", []string{"/me/b", "/you/b"}, policy.ReasonPath},
		{"dav.test", "MOVE", "/me/a", "", []string{"/me/../you/b"}, policy.ReasonBadPath},
		{"dav.test", "PUT", "/me/a", "", []string{""}, policy.ReasonBadPath},
		{"dav.test", "POST", "/me/a", "_method=DELETE", nil, ""}, // nor this one about methods
		{"git.test", "POST", "/a/b/git-upload-pack", "", nil, ""},
		{"git.test", "POST", "/a/b/git-upload-pack", "", []string{"/a/b/git-upload-pack"}, policy.ReasonPath},
		{"part.test", "COPY", "/a", "", []string{"/b"}, ""},
		{"part.test", "COPY", "/a", "", []string{"/admin/b"}, policy.ReasonDeniedByRule},
		{"part.test", "COPY", "/a", "", []string{""}, policy.ReasonBadPath},
		{"del.test", "POST", "/a", "x=1", nil, ""},
		{"del.test", "POST", "/a", "_method=x", nil, policy.ReasonDeniedByRule},
		{"free.test", "POST", "/a", "_method=DELETE", []string{""}, ""},
	} {
		r := request(c.host, 80, c.method, c.path)
		r.Query, r.Targets = c.query, slices.Clone(c.targets)
		if d := policy.Decide(p, r); d.Reason != c.reason || !slices.Equal(r.Targets, c.targets) {
			t.Errorf("%+v: %s (%s)", c, d.Reason, d.Detail)
		}
	}
}
