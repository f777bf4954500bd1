// Package home keeps the homes of agents: folders that a sandbox has as its
// home, one run after the other.
//
// A home is a folder of the store (homes in bailey's data folder): what it holds
// is the folder files in it, which is what a sandbox sees and writes, and
// hostile; beside that lie home.json and the folder written, which are bailey's
// and are in no sandbox. All that is read or written below files goes through
// internal/linux/beneath: no link that a run has planted is followed, and
// nothing there is ever run.
//
// Who uses a home holds a lock on its folder, which the kernel takes back when
// they die. internal/app/run opens homes, internal/cli lists, removes, exports
// and imports them.
package home
