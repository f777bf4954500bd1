// Package seal hides values: a Secret that cannot be printed, and envelopes in
// which values rest, bound to what they are for.
package seal
