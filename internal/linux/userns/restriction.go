package userns

import (
	"os"
	"path"
	"strings"
)

// Switches read what a machine's administrator decided about user namespaces.
type Switches struct {
	Root string // where /proc and /sys are; empty for the machine's own
	UID  int    // who wants a namespace
}

func (s Switches) read(name string) string {
	b, err := os.ReadFile(path.Join("/", s.Root, name))
	if err != nil {
		return "" // this kernel has no such switch
	}
	return strings.TrimSpace(string(b))
}

// Restriction says what keeps the user from making user namespaces, as far as
// the switches tell, and the command that mends it; both are empty if nothing
// does.
func (s Switches) Restriction() (what, fix string) {
	if what, fix := s.Kernel(); what != "" {
		return what, fix
	}
	if restricted, detail := s.AppArmor(); restricted {
		return detail, AppArmorFix
	}
	return "", ""
}

// Kernel looks at the kernel's own switches: user_namespaces(7), and Debian's
// kernel.unprivileged_userns_clone, which does not concern root.
func (s Switches) Kernel() (what, fix string) {
	if s.read("/proc/sys/user/max_user_namespaces") == "0" {
		return "user.max_user_namespaces is 0", "sudo sysctl -w user.max_user_namespaces=15000"
	}
	if s.UID != 0 && s.read("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
		return "kernel.unprivileged_userns_clone is 0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"
	}
	return "", ""
}

// AppArmor looks at Ubuntu's rule (23.10 and later): a program without a
// profile that grants "userns" gets a namespace without any capability. Detail
// says how it is, restricted or not.
func (s Switches) AppArmor() (restricted bool, detail string) {
	if s.read("/sys/module/apparmor/parameters/enabled") != "Y" {
		return false, "not active on this kernel"
	}
	if s.read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") != "1" {
		return false, "active, with no rule on user namespaces"
	}
	if label := s.read("/proc/self/attr/apparmor/current"); label != "" && !strings.HasPrefix(label, "unconfined") {
		return false, "user namespaces are restricted; bailey runs under the profile " + label
	}
	if s.UID == 0 {
		return false, "user namespaces are restricted for ordinary users; root is not one"
	}
	return true, "user namespaces are restricted to programs whose AppArmor profile grants them"
}

// AppArmorFix is the command that grants user namespaces to bailey alone.
const AppArmorFix = `printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile bailey /**/bailey flags=(unconfined) { userns, }\n' | ` +
	`sudo tee /etc/apparmor.d/bailey && sudo apparmor_parser -r /etc/apparmor.d/bailey`
