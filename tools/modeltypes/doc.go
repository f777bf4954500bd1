// Package modeltypes holds the gateway's lists of what may be sent to the types
// of the providers' own SDKs: whatever an SDK can send is kept, dropped or
// refused by name. A new version of an SDK fails the tests until somebody has
// decided about what it brings.
//
// It is a module of its own, so that no SDK is a dependency of bailey's.
package modeltypes
