package run

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/harden"
	"github.com/bailey-dev/bailey/internal/sandbox"
	"github.com/bailey-dev/bailey/internal/settings"
	"github.com/bailey-dev/bailey/internal/upstream"
	"github.com/bailey-dev/bailey/internal/vault"
)

// upstreamPlan is how a run's network is left.
type upstreamPlan struct {
	proxy *upstream.Proxy // nil: directly
	extra [][]byte        // certificates (DER)
	notes []string

	address *settings.ProxyAddress // of proxy
}

// planUpstream finds how the network is left for the hosts that a run may reach,
// and for the provider of its model.
func (r *Request) planUpstream(h Host, workspace string, p *plan, holds settings.Effective) (upstreamPlan, error) {
	u := holds.Upstream
	if r.Bare && p.model != nil { // no policy file is for it, but that is not about what it may reach
		var err error
		if u, err = settings.LoadUpstream(h.Place(workspace)); err != nil {
			return upstreamPlan{}, short(err)
		}
	}
	if u == nil || holds.Mode.Value == bailey.NetNone && p.model == nil {
		return upstreamPlan{}, nil
	}
	out, err := readUpstream(h, workspace, u, &p.vault)
	if err != nil || out.proxy == nil {
		return out, err
	}
	if holds.Mode.Value == bailey.NetNone {
		if upstream.New(out.proxy).Has(net.JoinHostPort(p.model.Provider.HostPort())) {
			out.notes = append(out.notes, fmt.Sprintf("upstream: the model's provider is reached by way of %s (%s)", out.address, u.From))
		}
		return out, nil
	}
	out.notes = append(out.notes, fmt.Sprintf("upstream: hosts are reached by way of %s (%s), which resolves their names: where this machine cannot resolve one, the address behind it is not checked", out.address, u.From))
	return out, nil
}

// Upstream is how a provider of models is reached without a run: by way of which
// proxy (nil: directly), and with whose certificates (DER) beside the machine's.
func Upstream(h Host) (*upstream.Proxy, [][]byte, error) {
	u, err := settings.LoadUpstream(h.Place(h.Dir))
	if err != nil || u == nil {
		return nil, nil, short(err)
	}
	var open *vault.Vault
	p, err := readUpstream(h, "", u, &open)
	return p.proxy, p.extra, err
}

// readUpstream reads what the user's file names. The vault is opened if a login
// is in it, unless it is open.
func readUpstream(h Host, workspace string, u *settings.Upstream, open **vault.Vault) (p upstreamPlan, err error) {
	address, none := u.Proxy, u.NoProxy
	if u.Environ {
		if address, err = ofEnviron(h); err != nil {
			return p, err
		}
		none = append(none, strings.Split(cmp.Or(h.Env.Get("NO_PROXY"), h.Env.Get("no_proxy")), ",")...)
	}
	if address != nil {
		p.address = address
		p.proxy = &upstream.Proxy{Host: address.Host, Port: address.Port, Login: []byte(address.Login), NoProxy: none, Forward: u.Forward}
	}
	if u.Login != "" && p.proxy != nil {
		if p.proxy.Login, err = loginOf(h, u, open); err != nil {
			return p, err
		}
	}
	if u.CA != "" {
		if workspace != "" && sandbox.Within(filepath.Clean(u.CA), workspace) {
			return p, bailey.NewError(bailey.Forbidden, fmt.Sprintf("%s: ca %s lies in the workspace, where the sandbox could write it", u.From, u.CA), "keep it elsewhere, or work in another folder")
		}
		if p.extra, err = certificates(u); err != nil {
			return p, err
		}
		p.notes = append(p.notes, fmt.Sprintf("trusted too: %d certificates of %s", len(p.extra), u.CA))
	}
	return p, nil
}

// ofEnviron is the proxy that the caller's environment names.
func ofEnviron(h Host) (*settings.ProxyAddress, error) {
	value := cmp.Or(h.Env.Get("HTTPS_PROXY"), h.Env.Get("https_proxy"))
	if value == "" {
		return nil, nil //nolint:nilnil // the network is left directly here
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	address, err := settings.ParseProxy(value)
	if err != nil {
		return nil, ofFlag("HTTPS_PROXY", err)
	}
	return address, nil
}

// loginOf reads the secret with the proxy's login: one that no sandbox can be
// lent.
func loginOf(h Host, u *settings.Upstream, open **vault.Vault) ([]byte, error) {
	if err := errors.Join(harden.NoCore(), harden.Undumpable()); err != nil { // as in lend
		return nil, err
	}
	v := *open
	if v == nil {
		var err error
		if v, err = vault.Open(h.Vault()); err != nil {
			return nil, err
		}
	}
	d, value, err := v.Get(u.Login)
	if err != nil {
		return nil, ofFlag(u.From+": login", err)
	}
	login := value.Reveal()
	switch {
	case !d.Gateway:
		return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("%s: login: the secret %s is for requests to its hosts, and a sandbox can be lent it", u.From, d.Name), "bailey secret set NAME --for gateway makes one that no sandbox can be lent")
	case !bytes.Contains(login, []byte(":")) || bytes.ContainsAny(login, "\r\n"):
		return nil, bailey.NewError(bailey.Invalid, fmt.Sprintf("%s: login: the secret %s is no USER:PASSWORD", u.From, d.Name), "bailey secret set "+d.Name+" keeps another value")
	}
	return login, nil
}

// Bounds of a file of certificates.
const (
	maxCA           = 1 << 20 // bytes
	maxCertificates = 50
)

// certificates reads a file of them. What it holds beside, a key above all, is
// refused: all of it would go into sandboxes.
func certificates(u *settings.Upstream) ([][]byte, error) {
	wrong := func(what string, err error) error {
		return bailey.WrapError(bailey.Invalid, fmt.Sprintf("%s: ca %s: %s", u.From, u.CA, what), err, "name a file with certificates (PEM) alone, such as the one that your network's administrators publish")
	}
	f, err := os.Open(u.CA)
	if err != nil {
		return nil, wrong("it cannot be read", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCA+1))
	if err != nil || len(data) > maxCA {
		return nil, wrong("it cannot be read, or is longer than a megabyte", err)
	}
	var out [][]byte
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, wrong("it holds a "+block.Type+" too", nil)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, wrong("a certificate in it cannot be read", err)
		}
		if !cert.IsCA {
			return nil, wrong(fmt.Sprintf("the certificate of %q in it is no authority's", cert.Subject.CommonName), nil)
		}
		out, data = append(out, block.Bytes), rest
	}
	if len(out) == 0 || len(out) > maxCertificates {
		return nil, wrong(fmt.Sprintf("it holds %d certificates, and not one to %d", len(out), maxCertificates), nil)
	}
	return out, nil
}
