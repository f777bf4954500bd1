# One verb a line of work; `make help` lists them. Everything that is built
# lands in bin/, everything that is cached in .cache/ (both ignored by git).

GO      ?= go
PREFIX  ?= /usr/local
N       ?= 20

MANDIR  := $(PREFIX)/share/man/man1
BASHDIR := $(PREFIX)/share/bash-completion/completions
ZSHDIR  := $(PREFIX)/share/zsh/site-functions
FISHDIR := $(PREFIX)/share/fish/vendor_completions.d

LDFLAGS := -s -w

.PHONY: all build install uninstall test unit spec fuzz lint bench gen help clean
.DEFAULT_GOAL := all

all: build

build: ## build bin/bailey (the default)
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/bailey ./cmd/bailey

install: build ## install the binary, its manual page and completions (PREFIX=/usr/local)
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(MANDIR)" "$(DESTDIR)$(BASHDIR)" "$(DESTDIR)$(ZSHDIR)" "$(DESTDIR)$(FISHDIR)"
	install -m 0755 bin/bailey "$(DESTDIR)$(PREFIX)/bin/bailey"
	bin/bailey man >"$(DESTDIR)$(MANDIR)/bailey.1"
	bin/bailey completion bash >"$(DESTDIR)$(BASHDIR)/bailey"
	bin/bailey completion zsh >"$(DESTDIR)$(ZSHDIR)/_bailey"
	bin/bailey completion fish >"$(DESTDIR)$(FISHDIR)/bailey.fish"

uninstall: ## take away what install put in place (the same PREFIX)
	rm -f "$(DESTDIR)$(PREFIX)/bin/bailey" "$(DESTDIR)$(MANDIR)/bailey.1" "$(DESTDIR)$(BASHDIR)/bailey" "$(DESTDIR)$(ZSHDIR)/_bailey" "$(DESTDIR)$(FISHDIR)/bailey.fish"

test: build ## run all tests: units with the race detector, then the security claims
	@.ci/deps test
	@.ci/test unit spec

unit: ## run the unit tests alone (PKG=./internal/policy/... for some of them)
	@.ci/test unit $(PKG)

spec: build ## run the security claims alone against bin/bailey (RUN=EGR01 for some of them)
	@RUN="$(RUN)" .ci/test spec

FUZZTIME ?= 1m
fuzz: ## run each fuzz target for FUZZTIME (1m; PKG=./internal/dns for some of them)
	@.ci/fuzz $(FUZZTIME) $(PKG)

lint: ## formatting, linters, import rules, known vulnerabilities
	@.ci/lint

bench: build ## start-up times, ratios and memory, then what the gate, attaching, phases, hidden files, the model gateway and tasks cost (N=20; ARGS="-as USER -json")
	@.ci/deps bench
	@status=0; $(GO) run ./bench -n $(N) $(ARGS) || status=1; \
	$(GO) run ./bench/gate $(filter -json,$(ARGS)) || status=1; \
	CGO_ENABLED=0 $(GO) run ./bench/everyday $(filter -json,$(ARGS)) || status=1; \
	CGO_ENABLED=0 $(GO) run ./bench/hidden $(filter -json,$(ARGS)) || status=1; \
	CGO_ENABLED=0 $(GO) run ./bench/model $(filter -json,$(ARGS)) || status=1; \
	CGO_ENABLED=0 $(GO) run ./bench/task $(filter -json,$(ARGS)) || status=1; \
	CGO_ENABLED=0 $(GO) test -run '^$$' -bench . -benchtime 3x ./internal/app/carrier || status=1; exit $$status

gen: build ## write what is generated again: the first process, NOTICE, tables and references
	@tools/gen

clean: ## remove what was built
	rm -rf bin

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
