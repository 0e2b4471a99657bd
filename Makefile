# make serve    set up and start the floor        make test       set up and run all tests
# make check    style, types, security            make test-long  the figures that take minutes
# make bench    what a call costs                 make setup      only set up
# make demo     a floor full of agents at work
# make test-agents  a real agent from npm works a specification off, against a stub of its model
#
# Everything is made inside the checkout: .venv, .cache and tests/clients/node_modules.

.DEFAULT_GOAL := serve
.PHONY: setup serve demo test test-long test-agents check bench docs clients system-packages

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Tests run side by side, one more than there are cores: much of their time is waiting for servers and browsers.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)

export PYTHON
export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export XDG_CACHE_HOME := $(CURDIR)/.cache
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/.cache/hypothesis

setup: $(VENV)/.installed-dev

serve: $(VENV)/.installed
	@$(BIN)/shopfloor model install || true
	@$(BIN)/python -m compileall -q src
	@exec $(BIN)/shopfloor serve $(ARGS)

demo: $(VENV)/.installed
	@exec $(BIN)/shopfloor demo --open $(ARGS)

test: setup system-packages clients
	@$(BIN)/python -m compileall -q src tests
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

test-long: setup system-packages clients
	@$(BIN)/python -m pytest -m long $(ARGS)

test-agents: setup system-packages tests/agents/node_modules/.installed
	@$(BIN)/python -m pytest -m agents tests/agents $(ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(wildcard src tests bench)
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src

docs: setup
	@$(BIN)/shopfloor tools --markdown > docs/tools.md

bench: setup system-packages
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m bench $(ARGS)

clients: tests/clients/node_modules/.installed

system-packages:
	@scripts/system-packages

$(VENV)/.installed: pyproject.toml constraints.txt scripts/install-python
	@scripts/install-python $(VENV) all
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt scripts/install-python
	@scripts/install-python $(VENV) all,dev
	@touch $(VENV)/.installed $@

tests/clients/node_modules/.installed: tests/clients/package.json scripts/install-clients | system-packages
	@scripts/install-clients tests/clients
	@touch $@

tests/agents/node_modules/.installed: tests/agents/package.json scripts/install-clients | system-packages
	@scripts/install-clients tests/agents
	@touch $@
