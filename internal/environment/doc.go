// Package environment keeps what `bailey env build` makes: folders with the
// packages that a project's tests need, built once through the gate and used by
// sandboxes without any network.
//
// An environment is a folder of the store (envs in bailey's data folder) with a
// manifest, env.json, and a tree, root. The tree is what a sandbox sees at
// MountPath, and what the packages' own install scripts wrote, in a sandbox: it
// is hostile. The host counts it, looks at names, types and modes, takes away
// what would act on it (audit.go), and never runs or reads a file of it. The
// manifest is bailey's: it lies beside the tree, where no sandbox sees it, and
// is read strictly all the same.
//
// The package starts no sandbox: Build says step by step what is to be run, and
// internal/cli hands in who runs it. internal/app/run, and the runner of tasks,
// read environments by Open.
package environment
