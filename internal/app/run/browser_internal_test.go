package run

import (
	"strings"
	"testing"
)

func TestJudgeAddress(t *testing.T) {
	const back = "&redirect_uri=http%3A%2F%2F"
	const ok = "https://a.test/x?state=0123456789abcdef"
	for text, want := range map[string]address{
		"https://a.test/x": {host: "a.test"},
		ok + back + "localhost%3A1455%2Fauth%2Fcallback":         {host: "a.test", port: 1455, path: "/auth/callback", state: "0123456789abcdef"},
		ok + back + "127.0.0.1%3A8080":                           {host: "a.test", port: 8080, path: "/", state: "0123456789abcdef"},
		ok + back + "%5B%3A%3A1%5D%3A8080%2Fcb":                  {host: "a.test", port: 8080, path: "/cb", state: "0123456789abcdef"},
		ok + "&redirect_uri=https%3A%2F%2Fconsole.a.test%2Fcode": {host: "a.test"},
	} {
		want.text = text
		if got, err := judgeAddress(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "a", "http://a.test/", "HTTPS:a.test", "https:///x", "https://u@a.test/", "https://a.test/ x", "https://a.test/\n", "https://a.test/é",
		ok + back + "localhost%2Fcb", ok + back + "localhost%3A22%2Fcb", ok + back + "evil.test%3A8080%2F", ok + back + "localhost.evil.test%3A8080%2F",
		ok + "&redirect_uri=https%3A%2F%2Flocalhost%3A8080%2F", ok + back + "localhost%3A8080%2F" + back + "localhost%3A8081%2F",
		ok + "&state=0123456789abcdef" + back + "localhost%3A8080%2F", "https://a.test/?x=1" + back + "localhost%3A8080%2F",
		"https://127.0.0.1:8443/admin", "https://[::1]:8443/x", "https://192.168.1.1/reboot", "https://169.254.169.254/latest/meta-data", "https://198.51.100.1/", "https://0x7f.1/", "https://2130706433/", "https://localhost/", "https://x.localhost/", "https://printer/", "https://nas.local/", "https://metadata.google.internal/", "https://a.test%00.evil/",
		"https://a.test/?a=%zz", "https://a.test/" + strings.Repeat("a", 9000),
	} {
		if got, err := judgeAddress(text); err == nil {
			t.Errorf("%s: taken as %+v", text, got)
		}
	}
}

func FuzzJudgeAddress(f *testing.F) {
	f.Add("https://a.test/?state=0123456789abcdef&redirect_uri=http%3A%2F%2Flocalhost%3A1455%2Fcb")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := judgeAddress(text)
		if err != nil {
			return
		}
		if !strings.HasPrefix(strings.ToLower(a.text), "https://") || strings.ContainsAny(a.text, " \n\x1b") || a.port != 0 && (a.port < leastPort || len(a.state) < 8 || a.path[0] != '/') {
			t.Errorf("%q: taken as %+v", text, a)
		}
	})
}
