// Package policy decides which names and addresses a sandbox may reach.
//
// It is pure: it does no I/O, reads no clock and holds no state. Every
// enforcement point (the name responder, the connection proxy) asks Decide and
// DecideAddr, and nothing else in the tree takes such a decision. The command
// line uses ParseRule, ParseDenyRule and AllowFlag.
//
// It never resolves a name and never guesses: what cannot be brought into the
// one normal form is refused. Zero values deny: an empty Policy reaches
// nothing, an empty Rule matches nothing, the zero Class is not public.
package policy
