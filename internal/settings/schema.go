package settings

import (
	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// root is a whole file.
func root() *yamlfile.Spec {
	var modes []string
	for _, m := range bailey.NetModes() {
		modes = append(modes, m.String())
	}
	return &yamlfile.Spec{Kind: yamlfile.Mapping, Help: "What sandboxes may do.", Keys: []yamlfile.Key{
		{Name: "net", Spec: &yamlfile.Spec{Kind: yamlfile.Mapping, Help: "What a sandbox may reach.", Keys: []yamlfile.Key{
			{Name: "mode", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Enum: modes, Help: "How far the network reaches: nothing; what allow and presets name; any public address; private ranges too. Without it: none, or allow when there is a rule."}},
			{Name: "allow", Spec: &yamlfile.Spec{Kind: yamlfile.List, Item: rule("Lets a sandbox reach this."), Help: "Hosts that may be reached."}},
			{Name: "deny", Spec: &yamlfile.Spec{Kind: yamlfile.List, Item: rule("Never lets a sandbox reach this."), Help: "Hosts that are never reached, whatever allows them."}},
			{Name: "git", Spec: gitSpec()},
			{Name: "upstream", Spec: upstreamSpec()},
			{Name: "presets", Spec: &yamlfile.Spec{Kind: yamlfile.List, Item: &yamlfile.Spec{Kind: yamlfile.Text, Enum: PresetNames(), Help: "The name of a preset."}, Help: "Lists of hosts by name (bailey policy presets)."}},
			{Name: "ask", Spec: &yamlfile.Spec{Kind: yamlfile.Flag, Help: "Ask a person about hosts that no rule names, in place of refusing them."}},
			{Name: "dns", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Enum: []string{bailey.DNSRules.String(), bailey.DNSOpen.String()}, Help: "Which names are answered: those that the rules allow, or all. Connections stay ruled."}},
		}}},
		{Name: "tasks", Spec: tasksSpec()},
		{Name: "home", Spec: homeSpec()},
		{Name: "hide", Spec: &yamlfile.Spec{Kind: yamlfile.List, Item: &yamlfile.Spec{Kind: yamlfile.Text, Help: "NAME in every folder, DIR/NAME, or /DIR/NAME from the workspace's folder, with * and ?."}, Help: "Files and folders of the workspace that a sandbox does not see, beside those that usually hold secrets."}},
		{Name: "show", Spec: &yamlfile.Spec{Kind: yamlfile.List, Item: &yamlfile.Spec{Kind: yamlfile.Text, Help: "As in hide."}, Help: "Files that it sees although they are hidden. Only in your own file."}},
	}}
}

func rule(help string) *yamlfile.Spec {
	some := func(help string, item *yamlfile.Spec) *yamlfile.Spec {
		return &yamlfile.Spec{Kind: yamlfile.List, Least: 1, Item: item, Help: help}
	}
	return &yamlfile.Spec{
		Kind: yamlfile.Entry, OneOf: []string{"host", "host-service"},
		Help: help + " HOST, HOST:PORT or *.SUFFIX, or a mapping that says more. No port means 80 and 443, and in deny every port. In deny a range of addresses (11.0.0.0/24) too.",
		Keys: []yamlfile.Key{
			{Name: "host", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Help: "A host name, *.SUFFIX for every name below it, or an IP address; in deny a range of addresses too."}},
			{Name: "ports", Spec: some("Ports.", &yamlfile.Spec{Kind: yamlfile.Number, Min: 1, Max: 65535, What: "a port", Help: "1 to 65535."})},
			{Name: "addresses", Spec: some("Addresses and ranges (10.1.0.0/16) that the name may resolve to; the way to reach private ones. In deny: where the name is denied, and it is not elsewhere.", &yamlfile.Spec{Kind: yamlfile.Text, Help: "An address or a range."})},
			{Name: "methods", Spec: some("Methods of HTTP requests that the rule is about.", &yamlfile.Spec{Kind: yamlfile.Text, Help: "In capitals, such as GET."})},
			{Name: "paths", Spec: some("Paths of HTTP requests that the rule is about.", &yamlfile.Spec{Kind: yamlfile.Text, Help: "Such as /v1/models; a star is any one segment, and at the end everything below."})},
			{Name: "git", Spec: &yamlfile.Spec{Kind: yamlfile.Mapping, OneOf: []string{"repositories"}, Help: "Git over HTTP(S) with some repositories of the host, and nothing else of it.", Keys: []yamlfile.Key{
				{Name: "repositories", Spec: some("Repositories that may be fetched from.", &yamlfile.Spec{Kind: yamlfile.Text, Help: "Such as owner/name, without .git."})},
				{Name: "write", Spec: &yamlfile.Spec{Kind: yamlfile.Flag, Help: "Push to them too."}},
			}}},
			{Name: "inspect", Spec: &yamlfile.Spec{Kind: yamlfile.Flag, Help: "Open TLS to this host, so that each request is seen, and a hidden second name."}},
			{Name: "dns", Spec: some("DNS records of the host that are answered besides its addresses.", &yamlfile.Spec{Kind: yamlfile.Text, Help: "TXT, or the service of an SRV record such as _imap._tcp."})},
			{Name: "why", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Help: "What the rule is for."}},
			{Name: "host-service", Spec: &yamlfile.Spec{Kind: yamlfile.Number, Min: 1, Max: 65535, What: "a port", Help: "In place of host: the port of a service on this machine's loopback, reached as host.bailey.internal:PORT."}},
		},
	}
}

// Schema returns the JSON Schema of a policy file.
func Schema() ([]byte, error) { return yamlfile.Schema("bailey.yaml", root()) }
