// Package cgroup puts a sandbox's processes under the kernel's limits on
// memory, CPU time and tasks, by cgroup version 1 or 2, whichever the machine
// has and the caller may write.
//
// Find says where the group would be and changes nothing, so that a watchdog
// can know what to clean up before there is anything; Create makes it; Remove
// leaves nothing. For each limit the result says whether the kernel enforces
// it, and if not, why: then somebody has to watch. The package asks no service
// manager and never moves a process that it was not given.
//
// Its callers are the engine and the watchdog, both outside the sandbox.
package cgroup
