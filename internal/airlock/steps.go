package airlock

import (
	"errors"
	"io/fs"
	"net/netip"
	"syscall"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/linux/netns"
	"github.com/bailey-dev/bailey/internal/linux/nft"
)

// step puts one layer in place. Steps run in order, on one thread, which the
// first moves into S and the third into R.
type step struct {
	layer string
	hint  string // what to try when the kernel does not have it
	do    func(*builder) error
}

const (
	hintNamespace = "bailey needs user and network namespaces: see `bailey doctor`"
	hintSysctl    = "mount /proc for writing; a container may need --security-opt systempaths=unconfined"
	hintNAT       = "load the modules: modprobe nf_tables nft_chain_nat nft_redir nft_ct nf_conntrack"
	hintReject    = "load the modules: modprobe nf_tables nft_reject_inet (Linux 5.9 or later)"
)

func steps() []step {
	return []step{
		{"network namespace of the sandbox", hintNamespace, (*builder).enterSandbox},
		{"network settings of the sandbox", hintSysctl, (*builder).setUpSandbox},
		{"network namespace of the router", hintNamespace, (*builder).enterRouter},
		{"network settings of the router", hintSysctl, (*builder).setUpRouter},
		{"veth pair", "load the module: modprobe veth", (*builder).addCable},
		{"listeners", "", (*builder).listen},
		{"nftables rules", hintNAT + "; " + hintReject, (*builder).setRules},
		{"link", "", (*builder).linkUp},
	}
}

// enterSandbox makes S and a routing socket in it, which stays there when the
// thread moves on.
func (b *builder) enterSandbox() (err error) {
	if b.lock.Sandbox, err = netns.New(); err != nil {
		return err
	}
	b.inS, err = netns.Dial()
	return err
}

func (b *builder) setUpSandbox() error {
	if err := netns.SetSysctls(sandboxSysctls()); err != nil {
		return err
	}
	return b.inS.Up(netns.Loopback())
}

func (b *builder) enterRouter() (err error) {
	if b.router, err = netns.New(); err != nil {
		return err
	}
	b.inR, err = netns.Dial()
	return err
}

func (b *builder) setUpRouter() error { return netns.SetSysctls(routerSysctls()) }

func (b *builder) addCable() (err error) {
	b.r0, err = b.inR.AddVeth(netns.Veth{
		Name: RouterLink, PeerName: SandboxLink, PeerNS: b.lock.Sandbox, MTU: mtu,
	})
	if err != nil {
		return err
	}
	if b.eth0, err = b.inS.Link(SandboxLink); err != nil {
		return err
	}
	if err := b.inS.AddAddress(b.eth0, b.address); err != nil {
		return err
	}
	return b.inR.AddAddress(b.r0, netip.PrefixFrom(Gateway(), b.address.Bits()))
}

func (b *builder) listen() (err error) {
	dnsAt := netip.AddrPortFrom(Gateway(), dnsPort)
	if b.lock.TCP, err = netns.ListenTCP(netip.AddrPortFrom(Gateway(), tcpPort)); err != nil {
		return err
	}
	if b.lock.DNSUDP, err = netns.ListenUDP(dnsAt); err != nil {
		return err
	}
	b.lock.DNSTCP, err = netns.ListenTCP(dnsAt)
	return err
}

func (b *builder) setRules() (err error) {
	c, err := nft.Dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Apply(b.rules); err != nil {
		return err
	}
	return c.Verify(b.rules)
}

// linkUp comes last: until here no packet can enter R.
func (b *builder) linkUp() error {
	if err := b.inR.Up(b.r0); err != nil {
		return err
	}
	if err := b.inS.Up(b.eth0); err != nil {
		return err
	}
	if err := b.inR.WaitUp(b.r0); err != nil {
		return err
	}
	return b.inS.AddDefaultRoute(b.eth0, Gateway())
}

// explain turns a step's error into one for a person.
func (s step) explain(err error) *bailey.Error {
	message := "cannot build the sandbox's network: " + s.layer
	var diff *nft.DifferenceError
	switch {
	case errors.As(err, &diff):
		return bailey.WrapError(bailey.Unsupported, message+" were changed or misread after they were set", err,
			"this kernel keeps the rules in a form that this version of bailey does not know; please report it with `uname -r`")
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		return bailey.WrapError(bailey.Exhausted, message, err, "raise the limit on open files (ulimit -n)")
	case errors.Is(err, syscall.ENOSPC):
		return bailey.WrapError(bailey.Exhausted, message, err, "raise the limit: sysctl user.max_net_namespaces")
	case errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOBUFS):
		return bailey.WrapError(bailey.Exhausted, message, err, "the kernel is out of memory for network namespaces")
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, fs.ErrPermission):
		hint := hintNamespace
		if s.hint == hintSysctl {
			hint = hintSysctl
		}
		return bailey.WrapError(bailey.Unsupported, message+" (not permitted)", err, hint)
	}
	return bailey.WrapError(bailey.Unsupported, message, err, s.hint)
}
