// Package bailey is the vocabulary of the project: the nouns that more than
// one package speaks of, their zero values and their wire forms.
//
// It imports the standard library only and does no I/O. Every other package
// may import it; it imports none of them. Zero values deny: an unset Verdict
// refuses, an unset NetMode has no network, an empty list allows nothing.
package bailey
