package secret

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/spell"
)

// Template is what is known of a service whose secrets many people have.
type Template struct {
	Name  string // in lower case
	What  string // the service and the kind of token, for people
	Var   string // the variable in which the service's tools look for the token
	Keep  int    // as in Definition
	Rules []Rule // without hosts where only the person knows them: see At
}

// HasHosts reports whether the template knows its hosts. Of a registry of
// packages it does not: which one is used is the person's own choice.
func (t Template) HasHosts() bool {
	return !slices.ContainsFunc(t.Rules, func(r Rule) bool { return len(r.Hosts) == 0 })
}

// At returns the rules for other hosts: of a registry, or of a service that
// the person's own company runs, where one host has all of it.
func (t Template) At(hosts ...Host) []Rule {
	rules := make([]Rule, 0, len(t.Rules))
	for _, r := range t.Rules {
		r.Hosts = slices.Clone(hosts)
		rules = append(rules, r)
	}
	return rules
}

// FindTemplate returns a template by its name. The error names the nearest.
func FindTemplate(name string) (Template, error) {
	list := Templates()
	if i := slices.IndexFunc(list, func(t Template) bool { return t.Name == name }); i >= 0 {
		return list[i], nil
	}
	names := make([]string, 0, len(list))
	for _, t := range list {
		names = append(names, t.Name)
	}
	return Template{}, bailey.NewError(bailey.Invalid, fmt.Sprintf("there is no template %q", name), spell.DidYouMean(name, names))
}

// Templates lists the templates by name. The caller may change what it gets.
func Templates() []Template {
	list := slices.Concat(forges(), models(), registries(), services())
	slices.SortFunc(list, func(a, b Template) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// at are hosts at the port of HTTPS.
func at(names ...string) []Host {
	hosts := make([]Host, 0, len(names))
	for _, n := range names {
		hosts = append(hosts, Host{Name: n, Wildcard: false, Port: httpsPort})
	}
	return hosts
}

// in is a rule for a header with the value alone.
func in(header string, hosts []Host, paths ...string) Rule {
	return Rule{Hosts: hosts, Methods: nil, Paths: paths, Place: Place{Kind: Header, Name: header, Format: valueMark, User: ""}}
}

// bearer is a rule for a bearer token (RFC 6750 2.1).
func bearer(hosts []Host, paths ...string) Rule {
	r := in("Authorization", hosts, paths...)
	r.Place.Format = "Bearer " + valueMark
	return r
}

// basic is a rule for Basic authentication, the value being the password.
func basic(user string, hosts []Host) Rule {
	return Rule{Hosts: hosts, Methods: nil, Paths: nil, Place: Place{Kind: Basic, Name: "", Format: "", User: user}}
}

// template is one with a prefix that is found by itself.
func template(name, variable, what string, rules ...Rule) Template {
	return Template{Name: name, What: what, Var: variable, Keep: 0, Rules: rules}
}

// Each entry below names the page of the service's own documentation that says
// the host, the place and the variable.

// forges are where git repositories lie.
func forges() []Template {
	return []Template{
		// GitHub Docs, "Authenticating to the REST API" (Bearer, or token, which
		// says the same), "REST API endpoints for release assets" (the host of
		// uploads), "Authenticating as a GitHub App installation" (x-access-token
		// for git; with a personal token any name will do, "Managing your personal
		// access tokens"). gh reads GH_TOKEN and GITHUB_TOKEN ("gh environment"),
		// most other tools the second alone.
		template("github", "GITHUB_TOKEN", "GitHub: the API, and git over HTTPS",
			bearer(at("api.github.com", "uploads.github.com")), basic("x-access-token", at("github.com"))),
		// GitLab Docs, "REST API authentication" (PRIVATE-TOKEN, or Bearer), "Git
		// over HTTPS" in "Personal access tokens" (any name; oauth2 is that of
		// tokens of OAuth 2.0), and glab's "Environment variables".
		template("gitlab", "GITLAB_TOKEN", "GitLab: the API, and git over HTTPS",
			in("PRIVATE-TOKEN", at("gitlab.com"), "/api"), bearer(at("gitlab.com"), "/api"), basic("oauth2", at("gitlab.com"))),
		// Atlassian Support, "Using access tokens" of a repository, project or
		// workspace (x-token-auth, Bearer). It names no variable.
		template("bitbucket", "BITBUCKET_TOKEN", "Bitbucket Cloud: access token of a repository, project or workspace",
			bearer(at("api.bitbucket.org")), basic("x-token-auth", at("bitbucket.org"))),
	}
}

// models are providers of language models.
func models() []Template {
	return []Template{
		// Claude Docs, "API overview" and "Client SDKs".
		template("anthropic", "ANTHROPIC_API_KEY", "Anthropic: API key", in("x-api-key", at("api.anthropic.com"))),
		// OpenAI API reference, "Authentication"; "Developer quickstart".
		template("openai", "OPENAI_API_KEY", "OpenAI: API key", bearer(at("api.openai.com"))),
		// Gemini API docs, "Using Gemini API keys" and "API reference".
		template("gemini", "GEMINI_API_KEY", "Google Gemini: API key", in("x-goog-api-key", at("generativelanguage.googleapis.com"))),
		// OpenRouter docs, "API authentication".
		template("openrouter", "OPENROUTER_API_KEY", "OpenRouter: API key", bearer(at("openrouter.ai"), "/api")),
		// Mistral docs, "API" and the clients' README.
		template("mistral", "MISTRAL_API_KEY", "Mistral: API key", bearer(at("api.mistral.ai"))),
		// GroqCloud docs, "Quickstart" and "API reference".
		template("groq", "GROQ_API_KEY", "Groq: API key", bearer(at("api.groq.com"))),
		// DeepSeek API docs, "Your first API call".
		template("deepseek", "DEEPSEEK_API_KEY", "DeepSeek: API key", bearer(at("api.deepseek.com"))),
		// xAI docs, "Getting started" and "API reference".
		template("xai", "XAI_API_KEY", "xAI: API key", bearer(at("api.x.ai"))),
		// Together AI docs, "Quickstart" and "OpenAI compatibility"; the clients
		// name the older of the two hosts.
		template("together", "TOGETHER_API_KEY", "Together AI: API key", bearer(at("api.together.ai", "api.together.xyz"))),
		// Perplexity docs, "API quickstart".
		template("perplexity", "PERPLEXITY_API_KEY", "Perplexity: API key", bearer(at("api.perplexity.ai"))),
		// Replicate docs, "HTTP API: authentication".
		template("replicate", "REPLICATE_API_TOKEN", "Replicate: API token", bearer(at("api.replicate.com"))),
		// Hugging Face docs, "Environment variables" of huggingface_hub, "User access
		// tokens", "Inference providers" (the host of the router).
		template("huggingface", "HF_TOKEN", "Hugging Face: the Hub, and inference", bearer(at("huggingface.co", "router.huggingface.co"))),
	}
}

// registries are of packages. Whose is used is in the person's configuration,
// so they come without a host.
func registries() []Template {
	return []Template{
		// npm Docs, "Using private packages in a CI/CD workflow".
		template("npm", "NPM_TOKEN", "npm: access token of a registry (name its host)", bearer(nil)),
		// PyPI, "API tokens": the user is __token__. twine's "Environment variables".
		template("pypi", "TWINE_PASSWORD", "PyPI: API token for uploads (name the host)", basic("__token__", nil)),
		// The Cargo Book, "Registry web API" and "Environment variables".
		template("crates", "CARGO_REGISTRY_TOKEN", "Cargo: token of a registry (name its host)", in("Authorization", nil)),
	}
}

// services are the rest.
func services() []Template {
	return []Template{
		// Slack, "Using the Web API" (Bearer); "Getting started" of Bolt.
		template("slack", "SLACK_BOT_TOKEN", "Slack: token of the Web API", bearer(at("slack.com"), "/api")),
		// Linear Developers, "Getting started" (the key without a word before it).
		template("linear", "LINEAR_API_KEY", "Linear: personal API key", in("Authorization", at("api.linear.app"))),
		// Notion API reference, "Authentication"; the client's README.
		template("notion", "NOTION_TOKEN", "Notion: token of an integration", bearer(at("api.notion.com"))),
		// Sentry docs, "Authentication" of the API and of the CLI.
		template("sentry", "SENTRY_AUTH_TOKEN", "Sentry: auth token", bearer(at("sentry.io", "us.sentry.io", "de.sentry.io"), "/api")),
		// Stripe API reference, "Authentication" (Bearer instead of Basic), "Stripe
		// CLI: API keys".
		template("stripe", "STRIPE_API_KEY", "Stripe: secret or restricted key", bearer(at("api.stripe.com"))),
		// Twilio SendGrid docs, "Authentication".
		template("sendgrid", "SENDGRID_API_KEY", "SendGrid: API key", bearer(at("api.sendgrid.com"))),
		// Cloudflare docs, "Make API calls"; Wrangler's "System environment
		// variables".
		template("cloudflare", "CLOUDFLARE_API_TOKEN", "Cloudflare: API token", bearer(at("api.cloudflare.com"), "/client/v4")),
		// DigitalOcean API reference, "Authentication"; doctl's README.
		template("digitalocean", "DIGITALOCEAN_ACCESS_TOKEN", "DigitalOcean: personal access token", bearer(at("api.digitalocean.com"))),
		// Vercel docs, "REST API: authentication" and "Vercel CLI global options".
		template("vercel", "VERCEL_TOKEN", "Vercel: access token", bearer(at("api.vercel.com"))),
		// Netlify docs, "Get started with the Netlify API" and "Get started with
		// the CLI".
		template("netlify", "NETLIFY_AUTH_TOKEN", "Netlify: personal access token", bearer(at("api.netlify.com"))),
		// Datadog docs, "API reference: authentication"; other sites than the first
		// are named with --host.
		template("datadog", "DD_API_KEY", "Datadog: API key", in("DD-API-KEY", at("api.datadoghq.com"))),
	}
}
