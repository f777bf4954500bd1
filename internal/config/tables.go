package config

import "strconv"

// Variable is a variable of the environment that bailey reads.
type Variable struct {
	Name   string
	Effect string // one sentence, Markdown
}

// Variables lists those that stand for no flag, for the documentation.
func Variables() []Variable {
	return []Variable{
		{"BAILEY_DEBUG", "A folder that exists: gVisor's logs are written there. They hold what the sandbox's programs do, arguments included; for `run` and `exec` while looking for a fault."},
		{"BAILEY_VAULT_KEY", "Where the key of the [vault](secrets.md#the-key) is: an absolute path, or `fd:N` for an inherited descriptor. Default: `vault.key` beside the policy file."},
		{"BAILEY_VAULT_IDENTITY", "A file of age identities, for a key of the vault that is encrypted to one."},
		{"HOME", "Where the caller's toolchains and git identity are looked for, and the folders below where no variable says otherwise."},
		{"PATH", "Where the command, its toolchain and the agents are looked for."},
		{"TERM", "The kind of terminal: passed on, or `xterm-256color` in its place where the sandbox does not know it."},
		{"COLORTERM", "How many colours the terminal has: passed on."},
		{"NO_COLOR", "Set to anything: no colours in bailey's own output; passed on."},
	}
}

// Folder is one of bailey's own folders.
type Folder struct {
	Use      string // what lies in it
	Variable string // of the environment, that moves it
	Fallback string // where it is when the variable is not set
}

// Folders lists what FindDirs finds, for the documentation.
func Folders() []Folder {
	return []Folder{
		{"the user's policy file, `config.yaml`; the [file of models](models.md), `models.yaml`; and the key of the [vault](secrets.md), `vault.key`; the token of MCP over HTTP, `mcp-token`", "XDG_CONFIG_HOME", "~/.config/bailey"},
		{"which project files are trusted; the vault, `vault/store`; the [record of usage](models.md#budgets), `usage`; the work of [tasks](tasks.md), `engine`", "XDG_DATA_HOME", "~/.local/share/bailey"},
		{"the [record of decisions](events.md#the-record-of-decisions); how new the vault has to be, `vault/mark`; what is known of tasks, `control`; the log of their service, `serve.log`", "XDG_STATE_HOME", "~/.local/state/bailey"},
		{"sockets of running sandboxes, and of the service for tasks, `serve.sock`; which runs use a model, `models`", "XDG_RUNTIME_DIR", "/run/user/UID/bailey; /run/bailey for root; bailey-UID in $TMPDIR where there is neither"},
	}
}

// LimitRow is one limit of a sandbox as the documentation shows it.
type LimitRow struct {
	Flag    string // without dashes
	Default string
	Least   string // empty: no more than that it is above zero
}

// LimitTable lists the limits of a sandbox, for the documentation.
func LimitTable() []LimitRow {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []LimitRow{
		{"memory", Bytes(defaultMemory).String() + ", at most three quarters of the machine's", Bytes(minMemory).String()},
		{"cpus", "all", "0.01"},
		{"pids", count(defaultProcesses), count(minProcesses)},
		{"nofile", count(defaultOpenFiles), count(minOpenFiles)},
		{"tmp-size", Bytes(defaultTmp).String(), ""},
		{"disk", Bytes(defaultDisk).String(), ""},
		{"inodes", count(defaultInodes), ""},
		{"timeout", "none", ""},
	}
}
