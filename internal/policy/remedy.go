package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/bailey-dev/bailey"
)

// Remedy is what would let a refused connection or look-up through. Each part
// is empty where there is none.
type Remedy struct {
	Flag  string // of bailey run, such as "--allow example.com:443"
	Entry string // of a list allow in a policy file, as YAML in one line
	Note  string // what else a person should know, or do where no rule helps
}

// RemedyOf returns what would have let a refused network event through. What
// is allowed has none.
func RemedyOf(ev bailey.Event) Remedy {
	if ev.Type != bailey.EventNetDecision || ev.Verdict == bailey.Allow.String() {
		return Remedy{}
	}
	if ev.Host == ServiceHost && (ev.Reason == ReasonNotAllowed || ev.Reason == ReasonPortNotAllowed || ev.Reason == ReasonModeNone) {
		if ev.Port == 0 {
			return Remedy{Note: "a service of this machine: --host-service PORT opens one"}
		}
		port := strconv.Itoa(int(ev.Port))
		return Remedy{Flag: "--host-service " + port, Entry: "{host-service: " + port + "}", Note: "a service of this machine"}
	}
	if ev.Protocol == ProtocolSSH {
		return remedyOfGit(ev)
	}
	if flag, ok := AllowFlag(ev); ok {
		return Remedy{Flag: "--allow " + flag, Entry: Entry(flag)}
	}
	if IsMetadata(ev.Host) {
		return Remedy{Note: "a cloud's metadata service: it lies at a link-local address, and no rule opens those"}
	}
	if entry := addressEntry(ev); entry != "" {
		return Remedy{Entry: entry, Note: fmt.Sprintf("%s is an address that only a rule in a file can open", ev.Address)}
	}
	return Remedy{Note: note(ev.Reason)}
}

// remedyOfGit is RemedyOf for a command over SSH.
func remedyOfGit(ev bailey.Event) Remedy {
	switch {
	case ev.Reason == ReasonCommand:
		return Remedy{Note: "over SSH only git's own commands pass"}
	case ev.Reason != ReasonRepository:
		return Remedy{Note: note(ev.Reason)}
	}
	if _, _, _, err := ParseGit(ev.Path); err != nil {
		return Remedy{Note: "the rules for it are about other repositories or branches"}
	}
	return Remedy{Flag: "--git " + gitFlag(ev.Method, ev.Path), Note: "the rules for it are about other repositories or branches"}
}

// Entry writes a host as --allow takes it into a list of YAML's flow style. A
// star begins an alias there, and a bracket a list.
func Entry(host string) string {
	if strings.ContainsAny(host, "*[") {
		return strconv.Quote(host)
	}
	return host
}

// addressEntry is the rule that names a host's internal address, or that of an
// internal address itself; or "".
func addressEntry(ev bailey.Event) string {
	addr, err := netip.ParseAddr(ev.Address)
	if err != nil || !addr.Is4() || !Classify(addr).nameable() {
		return ""
	}
	internal := Classify(addr) != ClassPublic
	host := ev.Host
	if host == "" {
		host = addr.String()
	} else if _, err := NormalizeName(host); err != nil {
		return ""
	}
	switch ev.Reason {
	case ReasonHostAddress, ReasonAddress:
	case ReasonSpecialAddress:
		if !internal {
			return ""
		}
	case ReasonNotAllowed, ReasonPortNotAllowed, ReasonModeNone:
		if !internal || ev.Host != "" {
			return ""
		}
	default:
		return ""
	}
	ports := ""
	if ev.Port != 0 {
		ports = fmt.Sprintf(", ports: [%d]", ev.Port)
	}
	return fmt.Sprintf("{host: %s%s, addresses: [%s]}", host, ports, addr)
}

// note says in a few words what a person can do about a refusal that no rule
// for the host mends. It is "" for a reason that needs no words.
func note(reason string) string {
	switch reason {
	case ReasonDeniedByRule:
		return "a deny rule refuses it, and deny beats allow"
	case ReasonMethod:
		return "the rule for it allows other methods alone"
	case ReasonPath:
		return "the rule for it allows other paths alone"
	case ReasonRepository, ReasonCommand:
		return "the rules for it are about git over SSH with some repositories"
	case ReasonSealed:
		return "a rule about it is about requests, which cannot be seen in this connection"
	case ReasonAddress:
		return "the rule for it names other addresses"
	case ReasonSpecialAddress:
		return "a private or special address, which no rule for a host opens"
	case ReasonHostAddress:
		return "an address of this machine itself, which no rule for a host opens"
	case ReasonUnresolved:
		return "this machine could not resolve it: check the name, and this machine's DNS"
	case ReasonUpstream:
		return "allowed, but it did not answer"
	case ReasonCertificate:
		return "allowed, but its certificate does not prove its name"
	case ReasonRootRejected:
		return "TLS to it is opened, as a rule wants, and the program did not trust bailey's certificate"
	case ReasonPolicyChanged:
		return "open when the rules were changed, and cut"
	case ReasonECH:
		return "its name may be encrypted: switch ECH off in the client, or give the host inspect: true"
	case ReasonNoName:
		return "it says no name, which no rule mends"
	case ReasonInvalidName, ReasonNameMismatch, ReasonBadTLS, ReasonBadRequest, ReasonBadPath, ReasonSilent, ReasonProxyItself, ReasonUnknown, ReasonTooMany:
		return reason + ": no rule mends it"
	}
	return secretNote(reason)
}

// Unreached says in words why a host that the rules allow could not be reached,
// or "" for a reason that is a refusal.
func Unreached(reason string) string {
	switch reason {
	case ReasonUnresolved:
		return "its name could not be resolved"
	case ReasonUpstream:
		return "it did not answer"
	case ReasonCertificate:
		return "its certificate does not prove its name"
	}
	return ""
}

// secretNote is note for placeholders that go nowhere.
func secretNote(reason string) string {
	switch reason {
	case ReasonSecretWrongHost:
		return "the secret whose placeholder it held is for other hosts (bailey secret show)"
	case ReasonSecretPlain:
		return "it held the placeholder of a secret, and no value goes out over plain HTTP: use https"
	case ReasonSecretMisplaced:
		return "it held the placeholder of a secret where the secret's rule has none (bailey secret show)"
	case ReasonSecretNotCovered:
		return "the rule of the secret leaves out its method or path (bailey secret show)"
	case ReasonSecretWithdrawn:
		return "the secret was taken back while the sandbox ran"
	}
	return ""
}
