package spec_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

// notTried are the commands of the pages that TestDocumentationCommands does
// not try, and why.
var notTried = map[string]string{
	"make && ./bin/bailey run -- bash": "it builds what is tested here, and its shell waits for a person",

	"./bin/bailey run --env ANTHROPIC_API_KEY claude":                                      agentsByName,
	`./bin/bailey run --env OPENAI_API_KEY codex exec "fix the failing test"`:              agentsByName,
	"./bin/bailey run --env ANTHROPIC_API_KEY --allow packages.example.com opencode":       agentsByName,
	"bailey run --env ANTHROPIC_API_KEY claude":                                            agentsByName,
	"bailey run --memory 8G --timeout 30m --env OPENAI_API_KEY codex exec 'fix the tests'": agentsByName,

	`bailey task run "Make sum.sh add: sh sum.sh 2 3 prints 5. sh test.sh has to pass." --checks "sh test.sh"`: tasksByAgents,
	"bailey task run --file task.md --model small --budget 2M --follow":                                        tasksByAgents,
	`bailey task run "Fix the off-by-one in parse.go; go test ./... must pass" --checks "go test ./..."`:       tasksByAgents,
	"bailey task run --n 3 --name parser - < task.md":                                                          tasksByAgents,
	`./bin/bailey task run --checks "make test" "Fix the off-by-one in parse.go"`:                              tasksByAgents,
	"./bin/bailey task diff ID":       tasksByAgents,
	"./bin/bailey mcp install claude": "it waits for a person's yes; the page about tasks has one that is tried",

	"bailey task diff sum-1f0c2a":                tasksByAgents,
	`bailey task checks sum-1f0c2a "sh test.sh"`: tasksByAgents,
	"bailey task merge sum-1f0c2a":               tasksByAgents,
	"bailey task rm sum-1f0c2a":                  tasksByAgents,
	"bailey serve --local":                       "it serves until it is stopped: TestSRV07_TheDoorIsForThisMachine has one",

	"bailey run claude":                             agentHomes,
	"bailey run --home trusted claude":              agentHomes,
	"bailey run --ephemeral-home claude":            agentHomes,
	"bailey inspect --env ANTHROPIC_API_KEY claude": agentHomes,

	"./bin/bailey inspect --env ANTHROPIC_API_KEY claude":              agentHomes,
	"./bin/bailey phase run plan.md -- --env ANTHROPIC_API_KEY claude": plansByAgents,
	"./bin/bailey shell":                 "it waits for a person: TestShell has a terminal",
	"./bin/bailey redteam":               allAttacks,
	"bailey redteam":                     allAttacks,
	"bailey redteam --allow example.com": allAttacks,
	"bailey redteam --html report.html":  allAttacks,

	"bailey skill lint":                          skillFolders,
	"bailey skill lint ./skills --json":          skillFolders,
	"bailey skill lint --ignore SK204 ~/.agents": skillFolders,

	"bailey models check": "a provider has to be there: TestModel_CheckAsksTheProvider has one",

	"bailey phase run plan.md -- --env ANTHROPIC_API_KEY claude":                                 plansByAgents,
	"bailey phase run plan.md --push origin --budget 5usd --deadline 3h -- --model small claude": plansByAgents,
	`bailey phase run plan.yaml --validate "go test ./..." -- --tool go --model small codex`:     plansByAgents,
	"bailey phase run plan.md --until 2 -- -- ./my-agent.sh":                                     plansByAgents,
	"bailey phase status --json":                 plansByAgents,
	"bailey phase stop --now":                    plansByAgents,
	"bailey attach api-3f2a91c0":                 inTheBackground,
	"bailey attach --no-stdin api-3f2a91c0":      inTheBackground,
	"bailey logs api-3f2a91c0":                   inTheBackground,
	"bailey logs -f --tail 20 api-3f2a91c0":      inTheBackground,
	"bailey logs --raw api-3f2a91c0 > whole.txt": inTheBackground,
	"bailey stats":                               "it goes on until Ctrl-C: TestStats has one",

	"bailey net allow api.example.com:443 --once": "something has to wait for it: TestEGR12_APersonIsAsked has that",
}

const inTheBackground = "a sandbox in the background has to be there: docs/background.md has one, and so have TestAttach_SizeAndKeys and TestBackground_WithoutATerminal"

const allAttacks = "it takes its time: TestRedteam_NoAttackWorks tries all attacks"

const skillFolders = "a folder of skills has to be there: TestSEC12_SkillsOfOthers has some"

const agentsByName = "TestAgents_WorkAndCannotGetOut runs the real agents by name"

const plansByAgents = "a plan has to be there, and an agent: TestRES08_ClaudeCodeDoesAPlan and TestRES08_Ends have them"

const agentHomes = "TestISO02_DefaultHomes and TestISO02_SettingsOfAnEarlierRun run and inspect the real agent"

const tasksByAgents = "an agent and a model have to be there: TestPlanner_DelegatesChecksMergesAndCleans has both"

// pageCommand is one command line that a page shows outside of a console.
type pageCommand struct {
	file string
	line int
	text string // without what is said about it
}

// TestDocumentationCommands tries every command of the pages' other blocks:
// flags as they stand; true in the place of what is to be run in a sandbox,
// since nobody has it; a sandbox of the test's for NAME; make without doing
// what it would do. What cannot be tried so is in notTried.
func TestDocumentationCommands(t *testing.T) {
	t.Parallel()
	bin := yard.Binary(t)
	var pages []string
	for _, glob := range []string{"../*.md", "../docs/*.md", "../docs/adr/*.md"} {
		found, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	seen := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks, problems := commandBlocks(page, string(text))
		for _, p := range problems {
			t.Error(p)
		}
		for _, block := range blocks {
			for _, c := range block {
				seen[c.text] = true
			}
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(page), block[0].line), func(t *testing.T) {
				t.Parallel()
				tryBlock(t, bin, block)
			})
		}
	}
	for line := range notTried {
		if !seen[line] {
			t.Errorf("no page shows %q any more", line)
		}
	}
}

// tryBlock tries the commands of one block in one fresh folder.
func tryBlock(t *testing.T, bin string, block []pageCommand) {
	t.Helper()
	dir, env := freshFolder(t, bin)
	started := false
	for _, c := range block {
		script := tried(c.text)
		if script == "" {
			continue
		}
		if strings.Contains(script, sandboxName) {
			if !started {
				startLive(t, dir, env)
				started = true
			}
			script = strings.ReplaceAll(script, sandboxName, liveName)
		}
		if out, status := shell(t, dir, env, script); status != 0 {
			t.Errorf("%s:%d: %s\ntried as: %s\nexit %d:\n%s", c.file, c.line, c.text, script, status, out)
		}
	}
}

// sandboxName stands for the name of a running sandbox in what is tried.
const sandboxName = "\x00NAME"

var (
	exampleName = regexp.MustCompile(`\bNAME\b|\bapi-[0-9a-f]{8}\b`)
	// forTheOne are the commands that mean the sandbox that runs, if it is one.
	forTheOne = regexp.MustCompile(`^bailey net (allow|deny) `)
	// aboutSecret are the commands that take a value, or change the secret ci.
	aboutSecret = regexp.MustCompile(`^bailey secret (set|edit) `)
)

// tried returns how a command of a page is tried, or "" when it is not.
func tried(line string) string {
	if notTried[line] != "" {
		return ""
	}
	script := strings.ReplaceAll(line, "./bin/bailey", "bailey")
	script = exampleName.ReplaceAllLiteralString(script, sandboxName)
	script = strings.ReplaceAll(script, "--sandbox web", "--sandbox "+sandboxName)
	if forTheOne.MatchString(script) && !strings.Contains(script, sandboxName) {
		script += " --sandbox " + sandboxName
	}
	flags, _, inside := strings.Cut(script, " -- ")
	switch {
	case script == "bailey serve stop":
		return "bailey task ls && " + script
	case strings.HasPrefix(script, "bailey task "):
		return script + "; status=$?; bailey serve stop; exit $status"
	case strings.Contains(script, "--model small"):
		return "mkdir -p ~/.config/bailey; printf '" + exampleModels + "' >~/.config/bailey/models.yaml; " + strings.TrimSuffix(script, "claude") + "-- true"
	case aboutSecret.MatchString(script):
		return "export CI_TOKEN=example-value; echo example-value >token.txt; echo example-value | bailey secret set ci --host ci.example.com >/dev/null 2>&1; echo example-value | " + script
	case inside:
		return flags + " -- true"
	case strings.HasSuffix(script, " lint .env"):
		return "echo A=b >.env; " + script
	case strings.HasPrefix(script, "make"):
		return "make -n -C \"$CHECKOUT\"" + strings.TrimPrefix(script, "make")
	case strings.Contains(script, "${fpath[1]}"):
		return "zsh -c 'fpath=(\"$HOME\"); " + script + "'"
	}
	return script
}

// exampleModels is a models.yaml with the model small, for printf.
const exampleModels = `providers: {local: {kind: ollama}}\nmodels: {small: {provider: local, dialect: anthropic}}\n`

const liveName = "live"

// startLive starts the sandbox liveName, which stays until the end of the test.
func startLive(t *testing.T, dir string, env []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bailey", "run", "--quiet", "--allow", "other.example.com", "--name", liveName, "--", "cat")
	for _, e := range env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok { // the last wins
			cmd.Path, cmd.Err = filepath.Join(strings.Split(path, ":")[0], "bailey"), nil
		}
	}
	cmd.Dir, cmd.Env = dir, env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	yard.Eventually(t, yard.Timeout, func() bool {
		out, status := shell(t, dir, env, "bailey ps")
		return status == 0 && strings.Contains(out, "running")
	}, func() string { return "the sandbox does not start" })
}

// commandBlocks returns the commands of a page's blocks that are no console,
// and says of a block that is nothing known. A page says something about a
// command after two spaces.
func commandBlocks(file, text string) (blocks [][]pageCommand, problems []string) {
	inside, language := false, ""
	var block []pageCommand
	var body strings.Builder
	for i, line := range strings.Split(text, "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && !inside:
			inside, language, block = true, fence, nil
			body.Reset()
		case isFence:
			inside = false
			problems = append(problems, judgeBlock(fmt.Sprintf("%s:%d", file, i+1), language, body.String(), block)...)
			if isPolicy(language, body.String()) {
				block = []pageCommand{{file, i + 1, "cat >policy.yaml <<'END'\n" + body.String() + "END\nbailey policy check policy.yaml"}}
			}
			if len(block) > 0 && (language == "sh" || language == "" || language == "yaml") {
				blocks = append(blocks, block)
			}
		case inside:
			body.WriteString(line + "\n")
			command, _, _ := strings.Cut(line, "  ")
			if isCommand(command) {
				block = append(block, pageCommand{file, i + 1, command})
			}
		}
	}
	return blocks, problems
}

// isCommand reports whether a line is a command and no summary of one.
func isCommand(line string) bool {
	word, _, _ := strings.Cut(line, " ")
	return (word == "bailey" || word == "./bin/bailey" || word == "make" || word == ".") && !isUsage(line)
}

func isUsage(line string) bool {
	return strings.HasPrefix(line, "bailey ") && strings.Contains(line, "[FLAGS]")
}

func isPolicy(language, body string) bool {
	return language == "yaml" && strings.HasPrefix(body, "net:\n")
}

// judgeBlock says what is wrong with a block: each is a console, or commands
// one a line, or a policy file, or a plan, or a summary that the program itself
// wrote, or a picture.
func judgeBlock(where, language, body string, commands []pageCommand) []string {
	lines := strings.Count(body, "\n")
	switch {
	case language == "console" && strings.HasPrefix(body, "$ "):
	case language == "sh" && lines == len(commands) && lines > 0:
	case language == "" && lines == len(commands) && lines > 0:
	case language == "" && lines == 1 && isUsage(body):
	case isPolicy(language, body):
	case language == "yaml" && strings.Contains(body, "\nunits:\n"): // TestPage of internal/phase
	case language == "json" && len(toolCalls(body)) == lines && lines > 0: // TestDocumentationToolCalls
	case language == "" && strings.ContainsAny(body, "│├"):
	default:
		return []string{fmt.Sprintf("%s: a block of %q that no test knows how to try", where, language)}
	}
	return nil
}

// TestDocumentationCommandsHarness holds the reading and what is tried.
func TestDocumentationCommandsHarness(t *testing.T) {
	t.Parallel()
	page := "```sh\nmake    # all\nbailey ps\n```\n```\nbailey ps [FLAGS]\n```\n```\n│ picture\n```\n```console\n$ echo\n```\n"
	blocks, problems := commandBlocks("p", page)
	if len(problems) > 0 || len(blocks) != 1 || len(blocks[0]) != 2 || blocks[0][0] != (pageCommand{"p", 2, "make"}) {
		t.Errorf("blocks %+v, problems %q", blocks, problems)
	}
	for _, bad := range []string{"```sh\nrm -rf x\n```\n", "```sh\nmake\nrm -rf x\n```\n", "```bash\nmake\n```\n", "```\nwhat is this\n```\n", "```console\nno command\n```\n", "```sh\n```\n", "```yaml\na: b\n```\n"} {
		if _, problems := commandBlocks("p", bad); len(problems) != 1 {
			t.Errorf("%q: problems %q, want one", bad, problems)
		}
	}
	if blocks, problems := commandBlocks("p", "```yaml\nnet:\n  mode: none\n```\n"); len(problems) > 0 || len(blocks) != 1 || tried(blocks[0][0].text) != "cat >policy.yaml <<'END'\nnet:\n  mode: none\nEND\nbailey policy check policy.yaml" {
		t.Errorf("a policy file: blocks %+v, problems %q", blocks, problems)
	}
	for line, want := range map[string]string{
		"bailey run --allow a.b -- rm x":                  "bailey run --allow a.b -- true",
		"./bin/bailey stop NAME":                          "bailey stop " + sandboxName,
		"bailey net deny a.b":                             "bailey net deny a.b --sandbox " + sandboxName,
		"bailey net allow a.b --sandbox web":              "bailey net allow a.b --sandbox " + sandboxName,
		"bailey doctor --live api-3f2a91c0":               "bailey doctor --live " + sandboxName,
		"make unit PKG=./x/...":                           `make -n -C "$CHECKOUT" unit PKG=./x/...`,
		"./bin/bailey run --env ANTHROPIC_API_KEY claude": "",
	} {
		if got := tried(line); got != want {
			t.Errorf("%q is tried as %q, want %q", line, got, want)
		}
	}
}

var binarySize = regexp.MustCompile(`([0-9]+) MB of binary`)

// TestDocumentationNumbers holds the one size that a page names to the binary.
func TestDocumentationNumbers(t *testing.T) {
	t.Parallel()
	info, err := os.Stat(yard.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/adr/0001-gvisor-inside-the-binary.md")
	if err != nil {
		t.Fatal(err)
	}
	m := binarySize.FindSubmatch(page)
	if m == nil {
		t.Fatal("the page does not say how large the binary is")
	}
	var says float64
	_, _ = fmt.Sscan(string(m[1]), &says)
	if is := float64(info.Size()) / 1e6; is < says-2 || is > says+2 {
		t.Errorf("the page says %v MB, the binary has %.1f", says, is)
	}
}
