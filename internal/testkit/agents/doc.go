// Package agents installs the real coding agents for tests, at pinned
// versions, into a folder that all runs share.
//
// The folder is the one that BAILEY_TEST_AGENTS names, or bailey/test-agents
// in the user's cache folder (in /var/cache for root). An installation that is already there is used
// as it is; otherwise npm makes it, under a lock. It may be imported by tests
// only. The agents are not redistributed: their licences allow use.
package agents
