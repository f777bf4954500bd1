package leak_test

import (
	"fmt"
	"math/rand/v2"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bailey-dev/bailey/internal/leak"
)

const (
	mixed36 = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	mixed   = "q8Rz1Tn5Vb3Xc7Kd9Mf2Ph4Jg6Ws0LyEuAoIi"
	hex40   = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"
)

// canaries are made-up secrets of many kinds, each in a line as files have it,
// and with the twin that is none.
func canaries() []struct{ kind, text, none string } {
	return []struct{ kind, text, none string }{
		{"github-pat", "token: ghp_" + mixed36, "token: ghp_" + strings.Repeat("x", 36)},
		{"github-fine-grained-pat", "github_pat_" + mixed36 + mixed36 + "11ABCDEFG0", "github_pat_" + strings.Repeat("a", 82)},
		{"github-oauth", "gho_" + mixed36, "gho_" + strings.Repeat("0", 36)},
		{"github-app-token", "ghs_" + mixed36, "ghs_your_token_here"},
		{"gitlab-pat", "GITLAB=glpat-" + mixed36[:20], "GITLAB=glpat-" + strings.Repeat("x", 20)},
		{"anthropic-api-key", "sk-ant-api03-" + mixed36 + mixed36 + mixed36[:21] + "AA", "sk-ant-api03-..."},
		{"openai-api-key", "sk-proj-" + strings.Repeat(mixed36, 2)[:58] + "T3BlbkFJ" + strings.Repeat(mixed, 2)[:58], "sk-proj-YOUR-KEY"},
		{"openrouter-api-key", "OPENROUTER=sk-or-v1-" + hex40 + hex40[:24], "OPENROUTER=sk-or-v1-xxxxxxxxxxxxxxxxxxxxxx"},
		{"groq-api-key", "x gsk_" + mixed36 + mixed36[:16], "x gsk_" + strings.Repeat("a", 52)},
		{"gcp-api-key", "key=AIza" + "SyB" + mixed36[:32], "key=AIza" + strings.Repeat("a", 35)},
		{"huggingface-access-token", "hf_" + "qWeRtYuIoPaSdFgHjKlZxCvBnMqWeRtYuI", "hf_" + "hub_download"},
		{"npm-access-token", "//registry.example.com/:_authToken=npm_" + strings.ToLower(mixed36), "//registry.example.com/:_authToken=${NPM_TOKEN}"},
		{"slack-bot-token", "xoxb-" + "123456789012-1234567890123-" + mixed36[:24], "xoxb-your-token"},
		{"slack-webhook-url", "https://hooks.slack.com/services/" + "T01ABCDEFGH/B01ABCDEFGH/" + mixed36[:24], "https://hooks.slack.com/services/"},
		{"stripe-access-token", "sk_live_" + mixed36[:24], "sk_live_..."},
		{"sendgrid-api-token", "SG." + mixed36 + mixed36[:30], "SG.x"},
		{"linear-api-key", "lin_api_" + strings.ToLower(mixed36) + "abcd", "lin_api_key"},
		{"notion-api-token", "ntn_" + "12345678901" + mixed36[:35], "ntn_token"},
		{"sentry-user-token", "sntryu_" + hex40 + hex40[:24], "sntryu_xxx"},
		{"digitalocean-pat", "dop_v1_" + hex40 + hex40[:24], "dop_v1_"},
		{"pypi-upload-token", "pypi-AgEIcHlwaS5vcmc" + mixed36 + mixed36, "pypi-server"},
		{"aws-access-token", "aws = AKIA" + "QWERTYU2345IOPAS", "aws = AKIAIOSFODNN7EXAMPLE"},
		{"private-key", "-----BEGIN RSA PRIVATE KEY-----\n" + mixed36 + mixed36 + "\n" + mixed + "\n-----END RSA PRIVATE KEY-----", "-----BEGIN PUBLIC KEY-----\n" + mixed36 + mixed36 + "\n-----END PUBLIC KEY-----"},
		{"jwt", "Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + mixed36, "eyJhbGciOiJIUzI1NiJ9"},
		{"generic-api-key", `db_password = "` + "k9Qz7Lr2Xv5Nw8Tb" + `"`, `db_password = "${DB_PASSWORD}"`},
		{"telegram-bot-api-token", "telegram_token = 123456789:A" + mixed36[:34], "telegram_token = none"},
		{"age-secret-key", "AGE-SECRET-KEY-1" + strings.Repeat("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 2)[:58], "AGE-SECRET-KEY-1"},
	}
}

func kinds(found []leak.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, f.Kind)
	}
	return out
}

func TestText_FindsEachKindAndNotItsTwin(t *testing.T) {
	t.Parallel()
	for _, c := range canaries() {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			before := "first line\n\tsecond "
			got, err := leak.Text("dir/app.conf", before+c.text+"\nlast\n")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.kind}, kinds(got)); diff != "" {
				t.Fatal(diff)
			}
			f := got[0]
			line := strings.SplitAfter(before+c.text+"\n", "\n")[f.Line-1]
			if f.Path != "dir/app.conf" || f.Line < 2 || !strings.HasPrefix(line[f.Column-1:], f.Starts) || len(f.Starts) > 4 {
				t.Errorf("%+v", f)
			}
			if got, err := leak.Text("dir/app.conf", before+c.none+"\nlast\n"); err != nil || len(got) > 0 {
				t.Errorf("the twin is taken for one: %+v %v", got, err)
			}
		})
	}
}

func TestText_SaysThePlace(t *testing.T) {
	t.Parallel()
	text := "a\nb = \"ghp_" + mixed36 + "\"\n\nc: gho_" + mixed36 + "\r\n"
	got, err := leak.Text("x", text)
	want := []leak.Finding{
		{Path: "x", Line: 2, Column: 6, Kind: "github-pat", Template: "github", Starts: "ghp_"},
		{Path: "x", Line: 4, Column: 4, Kind: "github-oauth", Template: "github", Starts: "gho_"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestText_PassesOverWhatIsMarked(t *testing.T) {
	t.Parallel()
	secret := "ghp_" + mixed36
	for text, want := range map[string]int{
		"t = " + secret + " # gitleaks:allow":       0,
		"t = " + secret + "\n# gitleaks:allow":      1,
		"# gitleaks:allow\nt = " + secret:           1,
		"t = " + secret + " # gitleaks: allow":      1,
		secret + " " + secret + " gitleaks:allow\n": 0,
	} {
		if got, err := leak.Text("x", text); err != nil || len(got) != want {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
}

func TestText_ShowsNothingOfAShortSecret(t *testing.T) {
	t.Parallel()
	got, err := leak.Text("x", `password = "k9Qz7Lr2Xv5Nw8T"`)
	if err != nil || len(got) != 1 || got[0].Starts != "" {
		t.Errorf("%+v %v", got, err)
	}
}

func TestText_IsNotForFilesThatHoldNone(t *testing.T) {
	t.Parallel()
	secret := "token = ghp_" + mixed36
	for path, want := range map[string]int{"a/package-lock.json": 0, "go.sum": 0, "x.png": 0, "a/package.json": 1, ".env": 1, "node_modules.txt": 1} {
		if got, err := leak.Text(path, secret); err != nil || len(got) != want {
			t.Errorf("%s: %+v %v", path, got, err)
		}
	}
}

func TestPath_TellsFilesThatAreSecrets(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{"keys/server.p12": 1, "Server.PFX": 1, "server.pem": 0, "p12": 0} {
		if got, err := leak.Path(path); err != nil || len(got) != want {
			t.Errorf("%s: %+v %v", path, got, err)
		}
	}
}

func TestVariable_LooksAtNameAndValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"GITHUB_TOKEN", "ghp_" + mixed36, "github-pat"},
		{"ANYTHING", "ghp_" + mixed36, "github-pat"},
		{"DB_PASSWORD", "k9Qz7Lr2Xv5Nw8Tb", "generic-api-key"},
		{"GREETING", "k9Qz7Lr2Xv5Nw8Tb", ""},
		{"PATH", "/usr/local/bin:/usr/bin:/bin", ""},
		{"DB_PASSWORD", "", ""},
		{"LANG", "C.UTF-8", ""},
	} {
		got, err := leak.Variable(c.name, c.value)
		if err != nil || len(got) > 1 {
			t.Fatal(got, err)
		}
		kind := ""
		if len(got) == 1 {
			kind = got[0].Kind
			if got[0].Variable != c.name || got[0].Path != "" || got[0].Line != 0 {
				t.Errorf("%+v", got[0])
			}
		}
		if kind != c.want {
			t.Errorf("%s=%s: %q, want %q", c.name, c.value, kind, c.want)
		}
	}
}

func TestText_IsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "t%d = ghp_%s%04d\n", i, mixed36[:32], i)
	}
	got, err := leak.Text("x", b.String())
	if err != nil || len(got) == 0 || len(got) > 1000 {
		t.Errorf("%d findings, %v", len(got), err)
	}
}

func TestRules_Compile(t *testing.T) {
	t.Parallel()
	if err := leak.CompileAll(); err != nil {
		t.Fatal(err)
	}
	list, err := leak.Rules()
	if err != nil || len(list) < 200 {
		t.Fatalf("%d rules, %v", len(list), err)
	}
	for _, r := range list {
		if r.Regex == "" && r.Path == "" {
			t.Errorf("%s looks at nothing", r.ID)
		}
		if r.Regex != "" && len(r.Keywords) == 0 {
			t.Errorf("%s has no word: it would never be tried", r.ID)
		}
		for _, k := range r.Keywords {
			if len(k) < 2 || k != strings.ToLower(k) {
				t.Errorf("%s: %q is no word for the table", r.ID, k)
			}
		}
	}
}

// TestWindows_FindWhatTheWholeFileHas makes texts that the rules' expressions
// match, between lines of other things, and holds what is found in parts of
// them to what is found in all.
func TestWindows_FindWhatTheWholeFileHas(t *testing.T) {
	t.Parallel()
	list, err := leak.Rules()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	told := map[string]bool{}
	for _, r := range list {
		if r.Regex == "" {
			continue
		}
		tree, err := syntax.Parse(r.Regex, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			text := around(random) + "\n" + sample(random, tree) + "\n" + around(random)
			path := map[string]string{"freemius-secret-key": "a.php", "hashicorp-tf-password": "a.tf", "kubernetes-secret-yaml": "a.yaml", "nuget-config-password": "nuget.config"}[r.ID]
			parts, err := leak.Text(path, text)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := leak.WholeText(path, text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(whole, parts); diff != "" {
				t.Errorf("%s: of\n%q\n(-whole +parts)\n%s", r.ID, strings.ReplaceAll(text, "lorem ipsum ", ""), diff)
			}
			for _, f := range parts {
				told[f.Kind] = true
			}
		}
	}
	if len(told) < 150 {
		t.Errorf("the texts had %d kinds of %d", len(told), len(list))
	}
}

// around are lines that have the rules' words in them, and a long one.
func around(random *rand.Rand) string {
	lines := []string{"the key to the api is a token", "func auth(secret string) error {", strings.Repeat("lorem ipsum ", 60), "", "password:", "github gitlab slack stripe"}
	var out []string
	for range random.IntN(8) {
		out = append(out, lines[random.IntN(len(lines))])
	}
	return strings.Join(out, "\n")
}

// sample makes a text that an expression matches, but for boundaries of words.
func sample(random *rand.Rand, re *syntax.Regexp) string {
	var b strings.Builder
	times := func(low, high int) {
		if high < 0 || high > low+8 {
			high = low + 8
		}
		for range low + random.IntN(high-low+1) {
			b.WriteString(sample(random, re.Sub[0]))
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		return string(pick(random, re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return string(rune('a' + random.IntN(26)))
	case syntax.OpStar:
		times(0, -1)
	case syntax.OpPlus:
		times(1, -1)
	case syntax.OpQuest:
		times(0, 1)
	case syntax.OpRepeat:
		times(re.Min, re.Max)
	case syntax.OpCapture:
		return sample(random, re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			b.WriteString(sample(random, sub))
		}
	case syntax.OpAlternate:
		return sample(random, re.Sub[random.IntN(len(re.Sub))])
	}
	return b.String()
}

// pick takes one of a class's characters, of ASCII where it has some.
func pick(random *rand.Rand, ranges []rune) rune {
	var all []rune
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= min(ranges[i+1], 0x7e); r++ {
			if r >= ' ' || r == '\n' {
				all = append(all, r)
			}
		}
	}
	if len(all) == 0 {
		return ranges[0]
	}
	return all[random.IntN(len(all))]
}

func FuzzText(f *testing.F) {
	for _, c := range canaries() {
		f.Add("a/b.txt", c.text)
		f.Add(".env", c.none)
	}
	f.Fuzz(func(t *testing.T, path, text string) {
		found, err := leak.Text(path, text)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(text, "\n")
		for _, x := range found {
			if x.Kind == "" || x.Line < 1 || x.Line > len(lines) || x.Column < 1 || x.Column > len(lines[x.Line-1]) || len(x.Starts) > 4 ||
				!strings.HasPrefix(lines[x.Line-1][x.Column-1:], x.Starts) {
				t.Fatalf("%+v of %q", x, text)
			}
		}
	})
}
