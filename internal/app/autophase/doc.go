// Package autophase does the units of a plan (internal/phase) one after another:
// an agent works in a sandbox, a validation runs in another, and what the agent
// changed is committed on the host and pushed.
//
// It is what `bailey phase run` is from its first unit to its last. Sandboxes
// are made by a process of its own each, role.Unit, which ends with it. The
// repository is touched by internal/app/carrier alone; the one program that it
// starts with the user's own rights is `git push`, in a git folder of bailey's
// own and with the settings that the user's git had before the first unit, and
// a validation where that was asked for by name.
package autophase
