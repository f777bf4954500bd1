// Package redteam carries out attacks on a sandbox by the user's own
// configuration, and judges what came of them: bait is laid on the host, the
// same attacks are tried inside and without any sandbox, and only what worked
// without one says something by failing inside.
package redteam
