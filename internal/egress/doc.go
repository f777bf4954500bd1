// Package egress is the one way out of a sandbox for TCP: it takes the
// connections that the airlock redirected to a listener, finds out which host
// each is for, asks internal/policy, and joins the allowed ones to an address
// that it resolved itself.
//
// A connection is one flow through small stages: read, name, decide, dial,
// forward, record. It has one identity: the server name of the TLS
// ClientHello, the Host of plain HTTP, the name that our own DNS answer gave
// to the address (for other protocols), or the literal address where a rule
// names it. The address that the sandbox chose is never dialled for a name,
// unless our own resolution has it too. TLS passes untouched, and stays with its
// name also after a HelloRetryRequest; where rules want to see inside it ends
// here, and begins anew towards the host. HTTP, plain or inside, is parsed
// strictly and rebuilt, but for its target, which goes out byte by byte. Another protocol passes under a
// name or address that was allowed for it, unless it can be read as HTTP.
//
// Programs that want to be told of a proxy find one at some ports of the
// listener's own address: CONNECT, requests in absolute form and SOCKS5. The
// name in a CONNECT or SOCKS request is part of the one identity, and what
// comes through the tunnel is judged by the same stages.
//
// A denied HTTP request is answered 403 with the reason, and so is a denied
// CONNECT; every other denied connection is reset. Each connection leaves one
// event, at its end; one that was used well before a request was refused, or
// before the policy was changed (Proxy.Adopt), leaves two, one for each part.
//
// The package creates no listener, knows no rule and holds no secret but the key
// of the sandbox's own root. Its caller is internal/app/proxy.
package egress
