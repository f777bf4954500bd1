package runsc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bailey-dev/bailey"
)

// extra are the flags of gVisor's that a person may add to a run: what they
// change is how fast it is and what it tells of itself. All others decide what
// a sandbox sees, reaches or can do, which is bailey's to decide.
func extra() []string {
	return []string{
		"app-huge-pages", "dcache", "debug-log-format", "gso", "gvisor-gro", "log-format", "network-processors-per-channel", "num-network-channels",
		"qdisc", "ref-leak-mode", "rx-checksum-offload", "software-gso", "strace", "strace-log-size", "strace-syscalls", "systrap-disable-fast-path",
		"systrap-disable-syscall-patching", "traceback", "tx-checksum-offload", "watchdog-action",
	}
}

// refused says of flags that people ask for why they are not to be had.
func refused(name string) string {
	switch name {
	case "network", "reproduce-nat", "reproduce-nftables", "EXPERIMENTAL-xdp", "gofer-network-namespace", "net-raw", "allow-packet-socket-write":
		return "the network would not be the one whose only way out is the proxy (--net, --allow and --publish say what it is)"
	case "host-uds", "host-fifo":
		return "sockets and pipes of this machine would be reachable through any folder that is shown"
	case "directfs", "file-access", "file-access-mounts", "overlay", "overlay2":
		return "the guards of git folders, and that changes on either side are seen, rest on it"
	case "oci-seccomp", "allow-suid", "iouring", "character-device-policy":
		return "programs inside would be kept from less"
	case "platform", "platform_device_path":
		return "one platform is tested, and starts without rights on this machine"
	case "rootless", "root", "shared-root", "ignore-cgroups", "systemd-cgroup", "host-settings", "sidecar-usage-policy", "sidecar-release-enforcement-policy":
		return "bailey makes the namespaces, limits and folders itself"
	case "nvproxy", "nvproxy-docker", "nvproxy-driver-version", "tpuproxy", "rdmaproxy":
		return "devices of this machine are not shown"
	case "debug", "debug-log", "debug-command", "log", "panic-log", "pcap-log", "log-packets", "alsologtostderr", "debug-to-user-log":
		return "BAILEY_DEBUG names the folder for gVisor's logs"
	case "allow-flag-override", "pod-init-config", "allow-rootfs-tar-annotation", "metric-server":
		return "it opens a way to change the others"
	}
	if strings.HasPrefix(name, "profile") || strings.HasPrefix(name, "TESTONLY") || name == "trace" || name == "coverage-report" {
		return "it loosens gVisor's own confinement"
	}
	return "it is not on the list of those that leave the sandbox as it is"
}

// CheckArg reads a flag of gVisor's as a person gave it, "--NAME", "--NAME=VALUE"
// or without the dashes, and returns it as gVisor takes it. One that is not of
// the list, or whose value is no plain word, is an error of kind Invalid.
func CheckArg(arg string) (string, error) {
	name, value, valued := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	if !slices.Contains(extra(), name) {
		return "", bailey.NewError(bailey.Invalid, fmt.Sprintf("--runtime-arg %s is refused: %s", arg, refused(name)), "those to be had: "+strings.Join(extra(), ", "))
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_,.-", r)
	}
	if valued && (value == "" || strings.ContainsFunc(value, func(r rune) bool { return !plain(r) })) {
		return "", bailey.NewError(bailey.Invalid, fmt.Sprintf("--runtime-arg %s: its value is no plain word", arg), "use letters, digits, and _ , . -")
	}
	if !valued {
		return "--" + name, nil
	}
	return "--" + name + "=" + value, nil
}
