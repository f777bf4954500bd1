package policy

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Index is a Policy made ready for questions: what it costs to answer one
// depends on how many rules speak of the host that is asked about, and not on
// how many there are. It never changes and is safe for concurrent use.
type Index struct {
	policy   Policy
	allow    table
	deny     table
	services bool // there is a host-service rule
}

// entry is a rule in a table.
type entry struct {
	rule Rule
	text string
}

// table finds rules by what they name. Each list is in the order of the rules.
type table struct {
	hosts  map[string][]*entry
	below  map[string][]*entry // wildcards, by what stands behind the star
	addrs  map[netip.Addr][]*entry
	ranges map[netip.Prefix][]*entry
	bits   []int // lengths that ranges have, the longest first
}

// NewIndex makes a Policy ready. The policy's lists must not change any more.
func NewIndex(p Policy) *Index {
	return &Index{
		policy: p, allow: newTable(p.Allow), deny: newTable(p.Deny),
		services: slices.ContainsFunc(p.Allow, func(r Rule) bool { return r.Service }),
	}
}

func newTable(rules []Rule) table {
	t := table{hosts: map[string][]*entry{}, below: map[string][]*entry{}, addrs: map[netip.Addr][]*entry{}, ranges: map[netip.Prefix][]*entry{}}
	for _, r := range rules {
		e := &entry{r, r.String()}
		switch {
		case r.Range.IsValid():
			if !slices.Contains(t.bits, r.Range.Bits()) {
				t.bits = append(t.bits, r.Range.Bits())
			}
			t.ranges[r.Range] = append(t.ranges[r.Range], e)
		case r.Addr.IsValid():
			t.addrs[r.Addr] = append(t.addrs[r.Addr], e)
		case r.Host == "":
		case r.Wildcard:
			t.below[r.Host] = append(t.below[r.Host], e)
		default:
			t.hosts[r.Host] = append(t.hosts[r.Host], e)
		}
	}
	slices.Sort(t.bits)
	slices.Reverse(t.bits)
	return t
}

// named yields the rules about a normalised name: those for the very host,
// then wildcards, the narrowest first.
func (t table) named(name string) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		list, rest := t.hosts[name], name
		for {
			for _, e := range list {
				if !yield(e) {
					return
				}
			}
			dot := strings.IndexByte(rest, '.')
			if dot < 0 || len(t.below) == 0 {
				return
			}
			rest = rest[dot+1:]
			list = t.below[rest]
		}
	}
}

// at yields the rules about an address: those for the very address, then the
// ranges, the narrowest first.
func (t table) at(a netip.Addr) iter.Seq[*entry] {
	a = a.Unmap()
	return func(yield func(*entry) bool) {
		list := t.addrs[a]
		for i := 0; ; i++ {
			for _, e := range list {
				if !yield(e) {
					return
				}
			}
			if i == len(t.bits) {
				return
			}
			p, err := a.Prefix(t.bits[i]) // an error: longer than the address is
			if list = nil; err == nil {
				list = t.ranges[p]
			}
		}
	}
}

// Policy returns what the index was made of.
func (x *Index) Policy() Policy { return x.policy }

// target is what a request is about, once its name or address is known to be
// well formed.
type target struct {
	Request        // Path is normalised, if it could be
	text    string // for sentences; a name, or an address as in a rule
	anyPort bool   // the question is about the name, whatever the port
	badPath error  // why Path, or one of Targets, has no normal form
	shifty  bool   // the query asks for another method
	rules   func(table) iter.Seq[*entry]
}

// readable reports whether the request itself can be judged, not only whom a
// connection is to.
func (t *target) readable() bool { return t.Method != "" }

// outside says why a rule that names the target does not speak of this
// request: a port, a method, a path, or that none can be seen. Empty: it does.
func (t *target) outside(r Rule) string {
	switch {
	case r.Range.IsValid(): // of deny rules alone
		return ReasonNotAllowed
	case t.anyPort:
		return ""
	case !r.allowsPort(t.Port):
		return ReasonPortNotAllowed
	case r.isSSH() || t.Protocol == ProtocolSSH:
		return t.outsideSSH(r)
	case !r.ofRequests():
		return ""
	case !t.readable():
		return ReasonSealed
	case len(r.Narrow.Methods) > 0 && (t.shifty || !slices.Contains(r.Narrow.Methods, t.Method)):
		return ReasonMethod
	case len(r.Narrow.Paths)+len(r.Narrow.Repositories) == 0:
		return ""
	case t.badPath != nil:
		return ReasonBadPath
	case len(r.Narrow.Repositories) > 0 && t.ofGit(r.Narrow):
		return ""
	case !r.namesPath(t.Path) || slices.ContainsFunc(t.Targets, func(p string) bool { return !r.namesPath(p) }):
		return ReasonPath
	}
	return ""
}

// namesPath reports whether one of the rule's paths names a normalised one.
func (r Rule) namesPath(path string) bool {
	return slices.ContainsFunc(r.Narrow.Paths, func(p string) bool { return matchPath(p, path) })
}

// refusedBy says why a deny rule that names the target refuses this request.
// Empty: it does not. What cannot be seen or read is refused.
func (t *target) refusedBy(r Rule) string {
	switch {
	case !r.deniesPort(t.Port) || t.anyPort && r.ofRequests():
		return ""
	case !r.ofRequests():
		return ReasonDeniedByRule
	case t.Protocol == ProtocolSSH: // a rule about requests of HTTP is none about it
		return ""
	case !t.readable():
		return ReasonSealed
	case len(r.Narrow.Methods) > 0 && !t.shifty && !slices.Contains(r.Narrow.Methods, strings.ToUpper(t.Method)): // some servers fold it
		return ""
	case len(r.Narrow.Paths) == 0:
		return ReasonDeniedByRule
	case t.badPath != nil:
		return ReasonBadPath
	case r.namesPath(t.Path) || slices.ContainsFunc(t.Targets, r.namesPath):
		return ReasonDeniedByRule
	}
	return ""
}

// read brings a request into normal form, or refuses it.
func (x *Index) read(r Request) (*target, *bailey.Decision) {
	t := &target{Request: r, anyPort: r.Protocol == ProtocolDNS}
	if r.Host == "" {
		return x.readLiteral(t)
	}
	name, err := NormalizeName(r.Host)
	if err != nil {
		return refused(ReasonInvalidName, err.Error())
	}
	if IsLocalhost(name) {
		return refused(ReasonSpecialAddress, name+" names the services of the machine itself; no sandbox reaches those, whatever the rules say")
	}
	if !t.anyPort && r.Port == 0 {
		return refused(ReasonNotAllowed, "port 0 cannot be reached")
	}
	if t.Protocol == ProtocolSSH {
		t.text, t.Host = name, name
		t.rules = func(b table) iter.Seq[*entry] { return b.named(name) }
		return t, nil // its path is no path of HTTP
	}
	t.text, t.Host = name, name
	t.rules = func(b table) iter.Seq[*entry] { return b.named(name) }
	t.readPath()
	return t, nil
}

func (x *Index) readLiteral(t *target) (*target, *bailey.Decision) {
	a := t.Addr
	switch {
	case !a.IsValid():
		return refused(ReasonNoName, "nothing says which host is meant: no name and no address")
	case t.Port == 0:
		return refused(ReasonNotAllowed, "port 0 cannot be reached")
	}
	if c := Classify(a); !x.mayReach(a, c) {
		d := special(a, c)
		return nil, &d
	}
	t.anyPort = false
	t.text = hostText(a)
	t.rules = func(b table) iter.Seq[*entry] { return b.at(a) }
	t.readPath()
	return t, nil
}

// mayReach reports whether an address that is named by number can be one that
// rules are asked about.
func (x *Index) mayReach(a netip.Addr, c Class) bool {
	if !c.Special() || c == ClassPrivate && x.policy.Mode == bailey.NetFull {
		return true
	}
	return c.nameable() && slices.ContainsFunc(x.allow.addrs[a], func(e *entry) bool { return e.rule.allowsAddr(a, x.policy.Mode) })
}

func (t *target) readPath() {
	if t.Method == "" || t.anyPort {
		return
	}
	t.shifty = OverridesMethod(t.Query)
	path, err := NormalizePath(t.Path)
	if err != nil {
		t.badPath = err
		return
	}
	t.Path = path
	t.readTargets()
}

// readTargets is readPath for what else the request names.
func (t *target) readTargets() {
	for i, p := range t.Targets {
		path, err := NormalizePath(p)
		if err != nil {
			t.badPath = fmt.Errorf("a field of the request names another target (Destination, or what is copied), which is no path of this host: %w", err)
			return
		}
		if i == 0 {
			t.Targets = slices.Clone(t.Targets) // which are the asker's
		}
		t.Targets[i] = path
	}
}

func refused(reason, detail string) (*target, *bailey.Decision) {
	d := denied(reason, "", detail)
	return nil, &d
}

// isReserved reports whether a name is one of those that bailey makes up.
func isReserved(name string) bool {
	return name == ServiceHost || name == "bailey.internal" || strings.HasSuffix(name, ".bailey.internal")
}
