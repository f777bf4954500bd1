package secret

import (
	"slices"
	"strings"
)

// Known is a kind of token that is told by its first bytes.
type Known struct {
	Prefix   string
	Kind     string // for people: "GitHub personal access token"
	Template string // of FindTemplate; empty: there is none
}

// PrefixOf returns the known prefix that a value begins with, else "": it says
// what the value is for and is no secret, and tools look at it.
func PrefixOf(value []byte) string {
	k, _ := Recognise(string(value[:min(len(value), maxKept)]))
	return k.Prefix
}

// Recognise returns the kind of token that a value is by its prefix alone.
func Recognise(value string) (Known, bool) {
	list := known()
	if i := slices.IndexFunc(list, func(k Known) bool { return strings.HasPrefix(value, k.Prefix) }); i >= 0 {
		return list[i], true
	}
	return Known{}, false
}

// KnownPrefixes lists the kinds that Recognise tells. One whose prefix begins
// with that of another comes before it.
func KnownPrefixes() []Known { return known() }

// known is in an order in which a prefix of another comes after it. Each is
// from its service's documentation of its tokens, or from the rules of gitleaks
// (see internal/leak).
func known() []Known { return slices.Concat(knownForges(), knownModels(), knownServices()) }

func knownForges() []Known {
	return []Known{
		{"github_pat_", "GitHub fine-grained personal access token", "github"},
		{"ghp_", "GitHub personal access token", "github"},
		{"gho_", "GitHub OAuth token", "github"},
		{"ghu_", "GitHub App user token", "github"},
		{"ghs_", "GitHub App installation token", "github"},
		{"ghr_", "GitHub App refresh token", ""},
		{"glpat-", "GitLab personal access token", "gitlab"},
		{"gloas-", "GitLab OAuth application secret", ""},
		{"gldt-", "GitLab deploy token", "gitlab"},
		{"glrt-", "GitLab runner token", ""},
		{"glcbt-", "GitLab job token", "gitlab"},
		{"glptt-", "GitLab trigger token", ""},
		{"glft-", "GitLab feed token", ""},
		{"glagent-", "GitLab agent token", ""},
		{"ATCTT3x", "Bitbucket access token", "bitbucket"},
		{"ATATT3x", "Atlassian API token", ""},
	}
}

func knownModels() []Known {
	return []Known{
		{"sk-ant-api03-", "Anthropic API key", "anthropic"},
		{"sk-ant-admin01-", "Anthropic admin key", "anthropic"},
		{"sk-ant-oat01-", "Anthropic OAuth token", ""},
		{"sk-ant-", "Anthropic key", "anthropic"},
		{"sk-or-v1-", "OpenRouter API key", "openrouter"},
		{"sk-proj-", "OpenAI project key", "openai"},
		{"sk-svcacct-", "OpenAI service account key", "openai"},
		{"sk-admin-", "OpenAI admin key", "openai"},
		{"sk-", "API key in the form of OpenAI's", "openai"},
		{"AIza", "Google API key", "gemini"},
		{"ya29.", "Google OAuth access token", ""},
		{"gsk_", "Groq API key", "groq"},
		{"xai-", "xAI API key", "xai"},
		{"tgp_v1_", "Together AI API key", "together"},
		{"pplx-", "Perplexity API key", "perplexity"},
		{"r8_", "Replicate API token", "replicate"},
		{"nvapi-", "NVIDIA API key", ""},
		{"hf_", "Hugging Face token", "huggingface"},
	}
}

func knownServices() []Known {
	return []Known{
		{"npm_", "npm access token", "npm"},
		{"pypi-", "PyPI API token", "pypi"},
		{"rubygems_", "RubyGems API key", ""},
		{"dckr_pat_", "Docker personal access token", ""},
		{"xoxe.xoxb-", "Slack rotating bot token", "slack"},
		{"xoxe.xoxp-", "Slack rotating user token", "slack"},
		{"xoxb-", "Slack bot token", "slack"},
		{"xoxp-", "Slack user token", "slack"},
		{"xoxa-", "Slack workspace token", "slack"},
		{"xapp-", "Slack app-level token", "slack"},
		{"lin_api_", "Linear API key", "linear"},
		{"ntn_", "Notion integration token", "notion"},
		{"sntrys_", "Sentry organization token", "sentry"},
		{"sntryu_", "Sentry user token", "sentry"},
		{"sk_live_", "Stripe secret key", "stripe"},
		{"sk_test_", "Stripe test key", "stripe"},
		{"rk_live_", "Stripe restricted key", "stripe"},
		{"rk_test_", "Stripe restricted test key", "stripe"},
		{"whsec_", "Stripe webhook secret", ""},
		{"SG.", "SendGrid API key", "sendgrid"},
		{"dop_v1_", "DigitalOcean personal access token", "digitalocean"},
		{"doo_v1_", "DigitalOcean OAuth token", "digitalocean"},
		{"nfp_", "Netlify personal access token", "netlify"},
		{"shpat_", "Shopify access token", ""},
		{"shpss_", "Shopify shared secret", ""},
		{"figd_", "Figma personal access token", ""},
		{"PMAK-", "Postman API key", ""},
		{"glsa_", "Grafana service account token", ""},
		{"hvs.", "Vault service token", ""},
		{"dp.pt.", "Doppler personal token", ""},
		{"phx_", "PostHog personal API key", ""},
		{"sbp_", "Supabase access token", ""},
		{"pscale_tkn_", "PlanetScale token", ""},
		{"AGE-SECRET-KEY-1", "age secret key", ""},
	}
}
