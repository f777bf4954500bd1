package policy

// The words of Decision.Reason and Event.Reason. They are part of the output
// of `--json` and of the X-Bailey-Reason header: add, never rename.
const (
	ReasonAllowedByRule  = "allowed-by-rule" // said of what is allowed, where it is asked for
	ReasonAllowedByMode  = "allowed-by-mode"
	ReasonModeNone       = "mode-none"              // the sandbox has no network
	ReasonNotAllowed     = "not-allowed"            // no allow rule names it
	ReasonPortNotAllowed = "port-not-allowed"       // a rule names the host, with other ports
	ReasonDeniedByRule   = "denied-by-rule"         // a deny rule names it
	ReasonSpecialAddress = "special-address"        // private, loopback, metadata, …
	ReasonHostAddress    = "host-address"           // an address of the machine that runs bailey
	ReasonNoName         = "no-name"                // nothing says which host is meant
	ReasonInvalidName    = "invalid-name"           // not a host name
	ReasonNameMismatch   = "name-mismatch"          // two names, or a name and a port, disagree
	ReasonECH            = "ech"                    // the TLS name is encrypted
	ReasonBadTLS         = "bad-tls"                // the ClientHello cannot be read
	ReasonBadRequest     = "bad-request"            // the HTTP request cannot be read in one way only
	ReasonUnknown        = "unknown-protocol"       // neither TLS nor HTTP, and no rule for the address
	ReasonSilent         = "silent"                 // it ended, or waited, without a word
	ReasonUnresolved     = "unresolved"             // the name has no IPv4 address now, or DNS failed
	ReasonUpstream       = "upstream"               // the host did not answer
	ReasonProxyItself    = "proxy-itself"           // the connection was made to bailey's own listener
	ReasonMethod         = "method-not-allowed"     // a rule names the host, with other methods
	ReasonPath           = "path-not-allowed"       // a rule names the host, with other paths
	ReasonBadPath        = "ambiguous-path"         // servers may read the path in two ways
	ReasonSealed         = "not-inspected"          // a rule is about requests, and none can be seen
	ReasonAddress        = "address-not-allowed"    // the rule names other addresses
	ReasonCertificate    = "bad-certificate"        // the host's certificate does not prove its name
	ReasonRootRejected   = "client-rejected-root"   // the program trusts no certificate of ours
	ReasonNotRecorded    = "not-recorded"           // of an event that stands for others
	ReasonRepository     = "repository-not-allowed" // no rule names the repository of a command over SSH, or not for that
	ReasonCommand        = "command-not-allowed"    // over SSH, and none of git's two
	ReasonTooMany        = "too-many"               // the sandbox's cap was reached
	ReasonPolicyChanged  = "policy-changed"         // the rules were changed while the connection was open
	ReasonAnsweredYes    = "answered-yes"           // a person was asked and let it through
	ReasonAnsweredNo     = "answered-no"            // a person was asked and refused
	ReasonNotAnswered    = "not-answered"           // a person was asked and did not answer in time

	ReasonSecretUsed       = "secret-used"        // said of a request that carried a secret's value
	ReasonSecretWrongHost  = "secret-wrong-host"  // no rule of the secret names the host and port
	ReasonSecretPlain      = "secret-plain-http"  // no value goes out over plain HTTP
	ReasonSecretMisplaced  = "secret-misplaced"   // the right host, and another place than the rule's
	ReasonSecretNotCovered = "secret-not-covered" // the right host, and a method or path that the rule leaves out
	ReasonSecretWithdrawn  = "secret-withdrawn"   // it was taken back while the sandbox ran
)
