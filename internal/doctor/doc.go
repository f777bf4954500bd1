// Package doctor says for this machine which layers of a sandbox are there, and
// how to get those that are not.
//
// Whatever can be tried is tried: a user namespace is made, a cgroup is made
// and removed, a sandbox is started, with the airlock, and the posture of
// every process of it is compared with what it must be. It starts sandboxes
// through the function it is given, the one that `bailey run` uses, and runs
// no program on the host. It changes nothing that outlives it.
package doctor
