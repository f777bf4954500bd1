package settings

import (
	"fmt"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/policy"
	"github.com/bailey-dev/bailey/internal/yamlfile"
)

// Upstream is how the user's network is left: by way of a proxy, and with whose
// certificates.
type Upstream struct {
	Proxy   *ProxyAddress // nil: directly
	Environ bool          // the proxy is the one that the user's environment names
	NoProxy []string      // hosts that are reached directly, as NO_PROXY has them
	CA      string        // file with certificates that are trusted too; empty: none
	Forward bool          // plain HTTP is put to the proxy request by request, and goes through no tunnel
	Login   string        // the vault's secret with the proxy's USER:PASSWORD; empty: none
	From    string
}

// LoadUpstream reads what the user's own file says of how the network is left;
// nil: nothing.
func LoadUpstream(p Place) (*Upstream, error) {
	f, err := readUser(p.UserFile())
	if err != nil || f == nil {
		return nil, err
	}
	return f.Net.Upstream, nil
}

// ProxyAddress is a proxy for HTTP.
type ProxyAddress struct {
	Host  string // a name or an address
	Port  uint16
	Login string // USER:PASSWORD, where the address came with one
}

// How plain HTTP goes by way of a proxy.
const (
	plainTunnel  = "tunnel"
	plainForward = "forward"
)

// byEnviron has the proxy taken from the environment.
const byEnviron = "environment"

func upstreamSpec() *yamlfile.Spec {
	return &yamlfile.Spec{Kind: yamlfile.Mapping, Help: "In your own file alone: how your network is left.", Keys: []yamlfile.Key{
		{Name: "proxy", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Help: "The proxy by way of which every allowed host, and every provider of models, is reached, such as http://proxy.example.com:3128; or environment, for what HTTPS_PROXY and NO_PROXY say where bailey is started."}},
		{Name: "no_proxy", Spec: &yamlfile.Spec{Kind: yamlfile.List, Help: "What is reached directly.", Item: &yamlfile.Spec{Kind: yamlfile.Text, Help: "A host and all below it, an address, or a range."}}},
		{Name: "plain_http", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Help: "How plain HTTP goes by way of the proxy: tunnel (CONNECT, as all else does; the default), or forward, request by request, as one wants it that opens tunnels for TLS alone. It sees the requests then.", Enum: []string{plainTunnel, plainForward}}},
		{Name: "login", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Help: "The secret (bailey secret set NAME --for gateway) that is USER:PASSWORD for the proxy."}},
		{Name: "ca", Spec: &yamlfile.Spec{Kind: yamlfile.Text, Help: "The absolute path of a file with certificates (PEM) that are trusted beside the machine's, outside and in sandboxes."}},
	}}
}

// upstream reads net.upstream.
func (p *parser) upstream(n *yaml.Node) *Upstream {
	if n == nil {
		return nil
	}
	u := &Upstream{From: p.From(n)}
	p.proxyOf(n, u)
	for _, v := range yamlfile.Items(yamlfile.Get(n, "no_proxy")) {
		u.NoProxy = append(u.NoProxy, v.Value)
	}
	if v := yamlfile.Get(n, "ca"); v != nil {
		u.CA = v.Value
		if !strings.HasPrefix(v.Value, "/") {
			p.At(v, "ca %q is no absolute path; write it from the root on", v.Value)
		}
	}
	return u
}

// proxyOf reads what net.upstream says of a proxy.
func (p *parser) proxyOf(n *yaml.Node, u *Upstream) {
	if v := yamlfile.Get(n, "proxy"); v != nil && v.Value == byEnviron {
		u.Environ = true
	} else if v != nil {
		address, err := ParseProxy(v.Value)
		if err == nil && address.Login != "" {
			err = bailey.NewError(bailey.Invalid, "the proxy's address holds a login", "keep it in the vault (bailey secret set NAME --for gateway), and name it with login")
		}
		p.Wrong(v, err)
		u.Proxy = address
	}
	for _, name := range []string{"plain_http", "login"} {
		if v := yamlfile.Get(n, name); v != nil && u.Proxy == nil && !u.Environ {
			p.At(v, "%s says nothing without proxy; leave it out", name)
		}
	}
	if v := yamlfile.Get(n, "plain_http"); v != nil {
		u.Forward = v.Value == plainForward
	}
	if v := yamlfile.Get(n, "login"); v != nil {
		u.Login = v.Value
	}
}

// ParseProxy reads the address of a proxy for HTTP.
func ParseProxy(s string) (*ProxyAddress, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		// It is not repeated: it may hold a password.
		return nil, bailey.NewError(bailey.Invalid, "the proxy's address is none that can be used", "write it as http://proxy.example.com:3128; other protocols are not spoken to a proxy")
	}
	out := &ProxyAddress{Host: u.Hostname(), Port: 80}
	if u.Port() != "" {
		if out.Port, err = policy.CheckPort(u.Port()); err != nil {
			return nil, err
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		out.Login = u.User.Username() + ":" + password
	}
	return out, nil
}

// String is the address without a login.
func (a ProxyAddress) String() string {
	if strings.Contains(a.Host, ":") {
		return fmt.Sprintf("http://[%s]:%d", a.Host, a.Port)
	}
	return fmt.Sprintf("http://%s:%d", a.Host, a.Port)
}
