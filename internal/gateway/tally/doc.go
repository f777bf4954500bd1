// Package tally reads the counts of tokens in answers of model providers, for
// the dialects' meters.
//
// Providers count cumulatively, leave fields out, add their own, and are wrong
// at times. So a count is the most that was said under its name; what is
// negative, shrinks or is no whole number is told and never lowers a bill. It
// is pure, and never fails: what it cannot read is odd, not an error.
package tally
