package gate

// Upstream is the proxy by way of which hosts are reached. It holds a login in
// the clear, and goes through a pipe and nothing else.
type Upstream struct {
	Host    string   `json:"host"`
	Port    uint16   `json:"port"`
	Login   []byte   `json:"login,omitempty"` // USER:PASSWORD
	NoProxy []string `json:"no_proxy,omitempty"`
	Forward bool     `json:"forward,omitempty"` // plain HTTP is put to it request by request
}

// String keeps the login from being printed.
func (Upstream) String() string { return "[upstream]" }

// GoString keeps %#v from printing it.
func (u Upstream) GoString() string { return u.String() }
