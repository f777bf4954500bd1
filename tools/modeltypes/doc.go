// Package modeltypes holds the gateway's lists of what may be sent to the types
// of the providers' own SDKs: whatever an SDK can send is kept, dropped or
// refused by name. A new version of an SDK fails the tests until somebody has
// decided about what it brings.
//
// When a test fails after an update, look up what the SDK says of each name it
// prints, and put the name in the provider's list: kept, if all it does is to
// describe the talk or the client's own tools; dropped or refused, if it makes
// the provider fetch, run, store or connect, takes another model or changes the
// price. "make gen" brings this go.mod up to the main module's.
//
// It is a module of its own, so that no SDK is a dependency of bailey's.
package modeltypes
