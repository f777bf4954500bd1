package skill

import (
	"encoding/base64"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Rule is one of the lint's.
type Rule struct {
	ID   string // SK and three digits; never used again for another
	What string // one sentence
}

// The rules' ids. Those below 100 are about secrets, 1xx about what people do
// not see, 2xx about orders, 3xx about what runs, 4xx about files.
const (
	secretRule   = "SK001"
	historyRule  = "SK002"
	zeroRule     = "SK101"
	bidiRule     = "SK102"
	tagRule      = "SK103"
	commentRule  = "SK104"
	styleRule    = "SK105"
	controlRule  = "SK106"
	encodedRule  = "SK107"
	ignoreRule   = "SK201"
	keysRule     = "SK202"
	sendRule     = "SK203"
	pipeRule     = "SK204"
	weakenRule   = "SK205"
	persistRule  = "SK206"
	secrecyRule  = "SK207"
	hookRule     = "SK301"
	injectRule   = "SK302"
	serverRule   = "SK303"
	installRule  = "SK304"
	linkRule     = "SK401"
	specialRule  = "SK402"
	writableRule = "SK403"
	frontRule    = "SK404"
)

// Rules lists them.
func Rules() []Rule {
	return []Rule{
		{secretRule, "a secret stands in a file"},
		{historyRule, "a secret stands in the git history, which an agent can read"},
		{zeroRule, "characters without width are in the text"},
		{bidiRule, "characters that turn the direction of text around are in it"},
		{tagRule, "tag characters or runs of variation selectors, which show nothing, hold text"},
		{commentRule, "a comment that is not shown gives orders"},
		{styleRule, "text is styled so that it is not seen"},
		{controlRule, "control characters are in the text"},
		{encodedRule, "encoded text gives orders"},
		{ignoreRule, "an agent is told to ignore its instructions or to take another role"},
		{keysRule, "an agent is told to read keys, passwords or its own variables"},
		{sendRule, "something of the machine is sent to a host"},
		{pipeRule, "what a host sends is run as it comes"},
		{weakenRule, "a guard of the agent or of the machine is switched off"},
		{persistRule, "something is left that runs later on the machine"},
		{secrecyRule, "an agent is told to keep something from its user"},
		{hookRule, "a hook runs a command by itself"},
		{injectRule, "a command runs when the skill is read"},
		{serverRule, "a server of tools is started"},
		{installRule, "a package runs a script when it is installed"},
		{linkRule, "a link leads out of the folder"},
		{specialRule, "a pipe, socket or device is no part of a skill"},
		{writableRule, "others on the machine may write to it"},
		{frontRule, "what stands before the text is not YAML"},
	}
}

// order is a pattern of what no skill needs to say. It is tried on each line,
// in lower case, less what cannot be seen.
type order struct {
	rule    string
	pattern string
}

func orders() []order {
	const (
		read = `(?:read|cat|open|print|show|output|include|collect|copy|dump|list|look (?:at|in|for)|find|grep|base64|head|tail|less|cp|get|fetch|retrieve|extract|access|load|upload|send|post|attach|append|paste)`
		keys = `(?:~?/?\.ssh\b|id_(?:rsa|ed25519|ecdsa|dsa)\b|~?/?\.aws/|\.aws/credentials|~?/?\.gnupg|~?/?\.netrc|\.git-credentials|~?/?\.kube/config|~?/?\.docker/config\.json|/etc/(?:shadow|passwd)|~?/?\.config/gcloud|~?/?\.npmrc|~?/?\.pypirc|auth\.json|\.credentials\.json|(?:^|[\s"'` + "`" + `(/])\.env\b|login ?keychain|browser (?:cookies|profile|passwords))`
		word = `(?:api[ _-]?keys?|access tokens?|secret keys?|private keys?|ssh keys?|passwords?|credentials?|environment variables|env vars|session tokens?)`
	)
	return []order{
		{ignoreRule, `\b(?:ignore|disregard|forget|override|bypass)\b.{0,30}\b(?:all|any|previous|prior|above|earlier|preceding|other|your|the|system|safety)\b.{0,30}\b(?:instructions?|prompts?|rules?|guidelines?|directives?|polic(?:y|ies)|restrictions?)\b`},
		{ignoreRule, `\byou are (?:now|no longer)\b.{0,60}\b(?:assistant|ai|agent|mode|dan|unrestricted|developer|jailbroken|root|admin)\b`},
		{ignoreRule, `<\s*(?:important|system|system-reminder|instructions?|hidden|secret)\s*>`},
		{ignoreRule, `\bbefore (?:using|calling|running) (?:any|this|another|other) (?:other )?tools?\b.{0,80}\b(?:read|call|send|run|pass)\b`},
		{keysRule, `\b` + read + `\b.{0,60}` + keys},
		{keysRule, `\b(?:read|print|show|output|include|collect|dump|copy|find|extract|send|upload|post|reveal|share)\b.{0,40}\b(?:the|your|all|any|every|user'?s?|my|its|their)\b.{0,20}\b` + word},
		{keysRule, `(?:^|[\s;&|` + "`" + `(])(?:printenv|env|set|export -p|cat /proc/(?:self|1|\*)/environ)\s*(?:[|>]|&&|$)`},
		{sendRule, `\b(?:curl|wget|http|nc|ncat|socat|telnet)\b.*(?:\s(?:-d|--data(?:-binary|-raw|-urlencode)?|-f|--form|-t|--upload-file|--post-data|--post-file|--body-data)[\s=].*(?:@|\$\(|\$\{?[a-z_]|` + "`" + `)|\?[^\s]*\$[({a-z_])`},
		{sendRule, `\b(?:send|post|upload|exfiltrate|transmit|forward|report|submit|leak|email)\b.{0,80}\b(?:contents?|output|result|data|files?|history|conversation|code|source|repository|keys?|tokens?|secrets?|passwords?)\b.{0,80}\bhttps?://`},
		{sendRule, `(?:/dev/tcp/|\|\s*(?:nc|ncat|socat)\s|!\[[^\]]*\]\(https?://[^)]*(?:\{|\$|<)[^)]*\))`},
		{sendRule, `\b(?:requests|axios|httpx|urllib\.request|fetch)\b.{0,30}(?:post|put|urlopen|\().{0,120}(?:environ|process\.env|os\.getenv|read\(\))`},
		{pipeRule, `\b(?:curl|wget|fetch|iwr|invoke-webrequest|irm|invoke-restmethod)\b[^\n]*\|\s*(?:sudo\s+)?(?:-e\s+)?(?:env\s+\S+\s+)?(?:/\S*/)?(?:ba|z|da|k|fi|c)?sh\b`},
		{pipeRule, `\b(?:curl|wget|iwr|irm)\b[^\n]*\|\s*(?:sudo\s+)?(?:python[0-9.]*|node|perl|ruby|php|deno|bun|iex|invoke-expression|powershell|pwsh|base64 (?:-d|--decode))\b`},
		{pipeRule, `(?:\b(?:ba|z|da|k)?sh\b|\bsource\b|\beval\b|(?:^|\s)\.)\s+(?:-c\s+)?["']?(?:<\(|\$\(|` + "`" + `)\s*(?:curl|wget)\b`},
		{pipeRule, `\bbase64\s+(?:-d|--decode|-D)\b[^\n]*\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b`},
		{pipeRule, `\b(?:exec|eval)\s*\(\s*(?:requests\.get|urllib\.request\.urlopen|base64\.b64decode|atob|__import__)`},
		{weakenRule, `--dangerously-skip-permissions|--dangerously-bypass|--yolo\b|--no-sandbox\b|--insecure-[a-z-]+|danger-full-access|bypasspermissions|--privileged\b|sandbox_mode\s*=|--allow-all-tools`},
		{weakenRule, `\b(?:disable|turn off|switch off|bypass|circumvent|evade|escape|get around)\b.{0,30}\b(?:sandbox|permissions?|approvals?|firewall|antivirus|safety|guard ?rails?|security (?:checks?|features?)|selinux|apparmor|tls verif|certificate)`},
		{weakenRule, `\bchmod\s+(?:-r\s+)?(?:a\+rwx|0?777)\b|\bnopasswd\b|\bsetenforce\s+0\b|\bmount\b[^\n]*docker\.sock|\bdocker\.sock\b`},
		{weakenRule, `(?:nodetlsrejectunauthorized|node_tls_reject_unauthorized)\s*=\s*["']?0|git_ssl_no_verify|http\.sslverify[ =]+false|\bcurl\b[^\n]*\s(?:-k|--insecure)\b`},
		{persistRule, `(?:>>?|\btee\b(?: -a)?|\bcp\b|\bmv\b|\bln\b|\bwrite\b|\bappend\b|\badd\b|\binstall\b|\bedit\b)[^\n]{0,80}(?:\.bashrc|\.zshrc|\.profile|\.bash_profile|\.zprofile|\.zshenv|authorized_keys|/etc/cron|\.config/autostart|launchagents|\.config/systemd|/etc/systemd|/etc/profile|\.git/hooks|sudoers|\.claude/settings|\.codex/config\.toml|claude\.md\b|agents\.md\b.{0,30}\b(?:home|~/))`},
		{persistRule, `\bcrontab\s+(?:-|[^-\s])|\bsystemctl\b[^\n]*\benable\b|\blaunchctl\s+load\b|core\.hookspath|\bgit config\b[^\n]*--global\b[^\n]*(?:alias\.|core\.|credential)|\bat now\b`},
		{secrecyRule, `\b(?:do not|don't|never|must not|without)\b.{0,20}\b(?:tell|telling|inform|informing|mention|mentioning|reveal|revealing|show|showing|notify|notifying|alert|alerting|disclose|disclosing|ask|asking|log|logging)\b.{0,30}\b(?:the )?(?:user|human|operator|developer|owner|person|anyone)\b`},
		{secrecyRule, `\b(?:silently|secretly|covertly|quietly|in the background without)\b.{0,40}\b(?:run|send|upload|read|copy|install|execute|add|change|delete|collect|commit|push)\b`},
	}
}

// compiled are the orders, ready to be tried.
var compiled = sync.OnceValue(func() []compiledOrder {
	var list []compiledOrder
	for _, o := range orders() {
		list = append(list, compiledOrder{o.rule, regexp.MustCompile(o.pattern)})
	}
	return list
})

type compiledOrder struct {
	rule    string
	pattern *regexp.Regexp
}

// broken is a rule that a text is against, and where in it that begins.
type broken struct {
	rule string
	at   int
}

// told returns the rules that a piece of text is against, each once.
func told(text string) (rules []broken) {
	seen := map[string]bool{}
	for _, o := range compiled() {
		if seen[o.rule] {
			continue
		}
		if found := o.pattern.FindStringIndex(text); found != nil {
			seen[o.rule] = true
			words := strings.TrimLeft(text[found[0]:found[1]], " \t\n")
			rules = append(rules, broken{o.rule, found[1] - len(words)})
		}
	}
	return rules
}

// reading is a text as a model takes it: in lower case, less characters that
// only keep words from being found. It is for the rules alone; what people are
// shown is the text itself.
type reading struct {
	low  string
	from []int // where each byte of it, and its end, are in the text; nil: at the same place
}

func read(text string) reading {
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return reading{strings.ToLower(text), nil}
	}
	var low strings.Builder
	from := make([]int, 0, len(text)+1)
	for at, r := range text {
		if isZero(r) || isBidi(r) || isTag(r) || isSelector(r) || r == 0xad {
			continue
		}
		n, _ := low.WriteRune(unicode.ToLower(r)) // which never fails
		for range n {
			from = append(from, at)
		}
	}
	return reading{low.String(), append(from, len(text))}
}

// place is where in the text a byte of the reading is.
func (r reading) place(at int) int {
	if r.from == nil {
		return at
	}
	return r.from[at]
}

func isZero(r rune) bool {
	switch r {
	case 0x200b, 0x200c, 0x200d, 0x2060, 0x2061, 0x2062, 0x2063, 0x2064, 0xfeff, 0x180e, 0x115f, 0x1160, 0x3164, 0xffa0:
		return true
	}
	return false
}

func isBidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
}

func isTag(r rune) bool { return r >= 0xe0000 && r <= 0xe007f }

func isSelector(r rune) bool { return r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef }

// hidden says where in a line is what people do not see, by rule.
func hidden(line string, first bool) map[string]int { //nolint:gocognit // one rule after the other
	found := map[string]int{}
	note := func(rule string, at int) {
		if _, ok := found[rule]; !ok {
			found[rule] = at
		}
	}
	var before rune
	selectors, flag := 0, false
	for at, r := range line {
		if r == 0x1f3f4 { // a flag of a region is made of tags (UTS #51, emoji tag sequences)
			flag = true
		}
		switch {
		case isTag(r):
			if !flag {
				note(tagRule, at)
			}
		case isSelector(r):
			if selectors++; selectors > 1 {
				note(tagRule, at)
			}
		case isZero(r):
			joins := r == 0x200d && before > 0x2000 || (r == 0x200c || r == 0x200d) && before > 0x590 && before < 0x2000 // emoji; scripts that need it
			if !joins && (r != 0xfeff || !first || at != 0) {
				note(zeroRule, at)
			}
		case isBidi(r):
			note(bidiRule, at)
		case r < ' ' && r != '\t' && r != '\r' && r != '\f' || r == 0x7f || r >= 0x80 && r < 0xa0:
			note(controlRule, at)
		}
		if !isSelector(r) {
			selectors = 0
		}
		if !isTag(r) && r != 0x1f3f4 {
			flag = false
		}
		before = r
	}
	return found
}

// unseen finds what a page shows nobody: comments, and text that its style
// hides.
var unseen = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		commentRule: regexp.MustCompile(`(?s)<!--(.*?)(?:-->|$)|(?m)^\[(?://|comment|_)\]:\s*(?:#|<>)\s*[("'](.*)[)"']\s*$`),
		styleRule: regexp.MustCompile(`(?is)<[a-z][^>]*\bstyle\s*=\s*["'][^"']*(?:display\s*:\s*none|visibility\s*:\s*hidden|opacity\s*:\s*0(?:\.0+)?\s*(?:;|["'])|font-size\s*:\s*[01](?:px|pt|em|rem|%)?\s*(?:;|["'])|` +
			`color\s*:\s*(?:white|transparent|#fff(?:fff)?\b|rgba?\([^)]*,\s*0\)|rgb\(\s*255\s*,\s*255\s*,\s*255\s*\))|left\s*:\s*-\d{3,})|<[a-z][^>]*\s(?:hidden|aria-hidden\s*=\s*["']true["'])[\s>]|<font[^>]*color\s*=\s*["']?(?:white|#fff(?:fff)?)\b`),
	}
})

// speaks reports whether a comment gives orders to somebody: it has a verb of
// those that agents are told by, or is against a rule itself.
var speaks = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:you (?:must|should|are|will|need to|have to)|always|never|do not|don't|ignore|disregard|instead|assistant|agent|claude|codex|gemini|copilot|model|llm|ai)\b.{0,200}\b(?:run|execute|read|send|call|use|write|delete|install|add|include|reply|respond|say|tell|do|ignore|follow|fetch|download|open|print|output|commit|push)\b`)
})

// inner is a text within another, and where it stands there.
type inner struct {
	text string
	at   int
}

// encoded finds base64 that is text, and returns it.
var encoded = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z0-9+/]{40,}={0,2}`) })

func decoded(line string) (texts []inner) {
	const most = 20
	for _, at := range encoded().FindAllStringIndex(line, most) {
		word := line[at[0]:at[1]]
		raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(word, "="))
		if err != nil || !utf8.Valid(raw) {
			continue
		}
		if text := string(raw); !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' }) {
			texts = append(texts, inner{text, at[0]})
		}
	}
	return texts
}
