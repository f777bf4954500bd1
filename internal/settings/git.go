package settings

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// gitSpec is net.git: repositories that are reached by SSH with the user's key,
// which stays outside.
func gitSpec() *yamlfile.Spec {
	return &yamlfile.Spec{Kind: yamlfile.OneOrMore, Help: "Git over SSH with some repositories, by the user's own key, which never enters a sandbox.", Item: &yamlfile.Spec{
		Kind: yamlfile.Mapping, Required: []string{"repositories"}, Help: "Some repositories, and what may be done with them.", Keys: []yamlfile.Key{
			{Name: "repositories", Spec: &yamlfile.Spec{Kind: yamlfile.List, Least: 1, Help: "Repositories that may be fetched from.", Item: &yamlfile.Spec{Kind: yamlfile.Text, Help: "Such as git@example.com:owner/name.git or ssh://git@example.com:2222/owner/name.git."}}},
			{Name: "write", Spec: &yamlfile.Spec{Kind: yamlfile.Flag, Help: "Push to them too."}},
			{Name: "branches", Spec: &yamlfile.Spec{Kind: yamlfile.List, Least: 1, Help: "With write: the branches that may be pushed to, and no other reference; none is deleted.", Item: &yamlfile.Spec{Kind: yamlfile.Text, Help: "A name such as main, or agent/* for all below."}}},
			{Name: "key", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Help: "In your own file alone: the absolute path of a key without a passphrase, or of the public half (.pub) of one that your agent holds. Without it: all keys of the agent (SSH_AUTH_SOCK)."}},
			{Name: "why", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Help: "What the rule is for."}},
		},
	}}
}

// gitEntries reads net.git.
func (p *parser) gitEntries(n *yaml.Node, out *Net) {
	list := yamlfile.Items(n)
	if n != nil && n.Kind == yaml.MappingNode {
		list = []*yaml.Node{n}
	}
	for _, entry := range list {
		out.Allow = append(out.Allow, p.gitEntry(entry)...)
		v := yamlfile.Get(entry, "key")
		switch {
		case v == nil:
		case !strings.HasPrefix(v.Value, "/"):
			p.At(v, "key %q is no absolute path; write it from the root on", v.Value)
		case out.Key != nil && out.Key.Value != v.Value:
			p.At(v, "another key is named above; name one, or let the agent hold them all")
		default:
			out.Key = &Setting[string]{v.Value, p.From(v)}
		}
	}
}

// gitEntry makes a rule of each host and user that the repositories of an entry
// are of.
func (p *parser) gitEntry(n *yaml.Node) []Held {
	ssh := policy.SSH{Branches: p.texts(yamlfile.Get(n, "branches"), policy.CheckBranch)}
	p.flag(yamlfile.Get(n, "write"), &ssh.Push)
	if v := yamlfile.Get(n, "branches"); v != nil && !ssh.Push {
		p.At(v, "branches says nothing without write: true; add it, or leave branches out")
		return nil
	}
	why := ""
	if v := yamlfile.Get(n, "why"); v != nil {
		why = v.Value
	}
	var out []Held
	for _, v := range yamlfile.Items(yamlfile.Get(n, "repositories")) {
		host, login, path, err := policy.ParseGit(v.Value)
		if p.Wrong(v, err) {
			continue
		}
		same := func(h Held) bool { return h.String() == host.String() && h.Narrow.SSH.Login == login }
		if i := slices.IndexFunc(out, same); i >= 0 {
			of := out[i].Narrow.SSH // made here, and nobody has it yet
			of.Repositories = append(of.Repositories, path)
			continue
		}
		one := ssh
		one.Login, one.Repositories = login, []string{path}
		rule, err := host.With(policy.Narrow{SSH: &one})
		if p.Wrong(v, err) {
			continue
		}
		out = append(out, Held{Rule: rule, From: p.From(v), Why: why})
	}
	for _, h := range out {
		if !p.fits(n, h.Rule, 1) {
			return nil
		}
	}
	return out
}

// gitFlag reads the value of --git: a repository, and :rw behind it for pushing.
func gitFlag(s string) (policy.Rule, error) {
	repo, push := strings.CutSuffix(s, ":rw")
	host, login, path, err := policy.ParseGit(repo)
	if err != nil {
		return policy.Rule{}, err
	}
	return host.With(policy.Narrow{SSH: &policy.SSH{Login: login, Repositories: []string{path}, Push: push}})
}
