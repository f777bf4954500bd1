// Package rootfs decides what a sandbox sees of the host's system: the root
// file system without an image. The host's /usr is there read-only, /etc is a
// small generated one, the home and the temporary folders are memory, and a
// toolchain outside /usr is there only when the command needs it.
//
// It runs as the caller, before the sandbox exists, and yields plain data
// (mounts, files, links, environment). It starts no program, walks no tree,
// writes nothing, reads no environment of its own, and never yields a home
// folder, a folder of credentials, or a file of /etc that not everybody may
// read. It follows no link of the workspace out of it.
//
// internal/app/run calls it; the engine carries out what it says.
package rootfs
