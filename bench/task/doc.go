// Command task measures what handing a task over costs, beside the same agent
// started by hand.
//
// The agent is the real Claude Code, and a shell that takes its task for a
// script, by which bailey's own part is seen. The provider is in this process:
// it follows a script, and the time of its first request is where the clock
// stops. It starts with the command, so a copy of the repository is in it: of
// bailey's snapshot on one side, of `git clone --local` on the other. Then 20
// tasks are handed over at once, and every branch is looked at.
//
// What snapshot and collect take by themselves is measured by the benchmarks
// of internal/app/carrier, which `make bench` runs too.
package main
