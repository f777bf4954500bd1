// Package mount is the door to the kernel's new mount interface (open_tree,
// mount_setattr, move_mount; Linux 5.12 and later): mounts are prepared as
// descriptors and attached when they are ready, so that no half-made mount is
// ever visible and a source is resolved exactly once.
//
// It decides nothing about what is mounted where. The engine's parent uses it
// to clone and id-map sources as root; the helper uses it in its own mount
// namespace.
package mount
