package models

// WriteHint is what is said where there is no file.
const WriteHint = "bailey models example --write makes one to begin with"

// Example is a file that can be begun with.
const Example = `# Models for sandboxes: ~/.config/bailey/models.yaml
# bailey secret set claude-key --for gateway     keeps the key of a provider
# bailey models check                            says whether all of it holds
default: sonnet

budget:
  day: 20usd                     # over all models

providers:
  claude:
    kind: anthropic
    key: {secret: claude-key}
  local:
    kind: ollama                 # at http://127.0.0.1:11434; needs no key

models:
  sonnet:
    provider: claude
    name: claude-sonnet-5-5      # what the provider calls it
    context: 200000
    max_output: 32000
    budget: {task: [2M, 5usd]}   # one run; tokens, money, or both
  small:
    provider: local
    name: qwen3:30b
    dialect: anthropic
    max_agents: 2                # runs at a time
    price: {input: 0, output: 0} # USD a million tokens
`
