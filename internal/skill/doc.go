// Package skill looks through a folder of skills, prompts and instructions for
// agents: for secrets (its git history too, which an agent can read), for text
// that people do not see, for orders that no skill needs to give, and for what
// would run by itself. Each rule has an id and stands in docs/skills.md.
//
// It takes the folder for hostile: it follows no link, runs nothing, not even
// git, bounds what it reads, and gives no secret away. It writes nothing. Its
// caller is the command line.
package skill
