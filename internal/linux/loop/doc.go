// Package loop makes file systems of a fixed size in files: what is written to
// one ends at its size, whoever writes and however fast, which no watching from
// outside can promise. It needs root, a free loop device and mkfs.ext4, and says
// so where one of them is not there.
package loop
