package models

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/bailey-dev/bailey/internal/secret"
)

// Check says, a line each and with the place, what of the file does not hold
// outside of it: keys that are not kept, or not for the gateway. find is asked
// for each secret; nil: none is kept.
func (c *Config) Check(find func(name string) (secret.Definition, error)) []string {
	var out []string
	for _, p := range c.Providers() {
		if p.Secret == "" {
			if base := traitsOf(p.Kind).base; base == p.Base && !p.Loopback() {
				out = append(out, fmt.Sprintf("%s: provider %s: %s wants a key; write key: {secret: NAME}", p.From, p.Name, base))
			}
			continue
		}
		set := "bailey secret set " + p.Secret + " --for gateway"
		if find == nil {
			out = append(out, fmt.Sprintf("%s: provider %s: there is no secret %s; keep it: %s", p.keyFrom, p.Name, p.Secret, set))
			continue
		}
		d, err := find(p.Secret)
		switch {
		case err != nil:
			out = append(out, fmt.Sprintf("%s: provider %s: there is no secret %s; keep it: %s", p.keyFrom, p.Name, p.Secret, set))
		case !d.Gateway:
			out = append(out, fmt.Sprintf("%s: provider %s: the secret %s is not kept for the gateway; keep another for it: bailey secret set NAME --for gateway", p.keyFrom, p.Name, p.Secret))
		}
	}
	return out
}

// Providers lists those that models have, each once.
func (c *Config) Providers() []Provider {
	var out []Provider
	seen := map[string]bool{}
	for i := range c.Models {
		if p := c.Models[i].Provider; !seen[p.Name] {
			seen[p.Name] = true
			out = append(out, p)
		}
	}
	return out
}

// Reach connects to every provider at once, for at most so long each, and
// returns what stands in the way, by the provider's name; nil: nothing. Nothing
// is sent.
func (c *Config) Reach(ctx context.Context, most time.Duration) map[string]error {
	out := map[string]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range c.Providers() {
		wg.Go(func() {
			host, port := p.HostPort()
			conn, err := (&net.Dialer{Timeout: most}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
			if err == nil {
				_ = conn.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			out[p.Name] = err
		})
	}
	wg.Wait()
	return out
}
