// Package spell finds the known word that a wrong one was most likely meant to
// be, for the hints of errors, and puts nouns into the number of what they count.
package spell
