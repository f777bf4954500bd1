// Package origdst reads where a redirected TCP connection was going before
// netfilter turned it to us. That is all it does; it never dials. Its caller
// is internal/app/proxy, on behalf of egress.
package origdst
