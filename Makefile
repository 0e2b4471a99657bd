# make serve        set up and start the server
# make demo         start a server with a scripted team of agents, and open its pages
# make test         set up and run all tests
# make test-long    run the tests that take minutes
# make test-agents  drive a real agent from npm, and check the configs of connect with real clients
# make check        check style, types and security
# make format       format code, templates and style sheets
# make docs         regenerate the generated pages
# make site         build the documentation as a web site into .cache/site, and check its links
# make picture      record the README's picture from the demo
# make bench        measure the cost of calls
# make chaos        faults, soak and growth; writes the report in docs/reliability.md
# make setup        only set up
#
# Everything is created inside the checkout: .venv, .cache and tests/clients/node_modules.

.DEFAULT_GOAL := serve
.PHONY: setup serve demo test test-long test-agents check format bench chaos docs site picture clients system-packages

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Two more workers than there are cores: tests spend much of their time waiting for servers and browsers.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 2)

export PYTHON
export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export XDG_CACHE_HOME := $(CURDIR)/.cache
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/.cache/hypothesis

setup: $(VENV)/.installed-dev

serve: $(VENV)/.installed
	@$(BIN)/shopfloor model install || true
	@$(BIN)/python -m compileall -q src
	@echo 'In another terminal: export PATH="$(CURDIR)/$(BIN):$$PATH"'
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
	$(BIN)/djlint --check src/shopfloor/web/templates
	$(BIN)/python scripts/format-css --check src/shopfloor/web/static/*.css
	$(BIN)/mypy
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src

format: setup
	$(BIN)/ruff format .
	$(BIN)/djlint --reformat --quiet src/shopfloor/web/templates
	$(BIN)/python scripts/format-css src/shopfloor/web/static/*.css

docs: setup
	@$(BIN)/python -m scripts.generate_docs

site: $(VENV)/.installed-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "built .cache/site/index.html"

picture: $(VENV)/.installed-docs system-packages
	@$(BIN)/python scripts/record-demo docs/demo.webp

bench: setup system-packages
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m bench $(ARGS)

chaos: setup system-packages
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m chaos $(ARGS)

clients: tests/clients/node_modules/.installed

system-packages:
	@scripts/system-packages

$(VENV)/.installed: pyproject.toml constraints.txt scripts/install-python
	@scripts/install-python $(VENV) all
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt scripts/install-python
	@scripts/install-python $(VENV) all,dev
	@touch $(VENV)/.installed $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt scripts/install-python
	@scripts/install-python $(VENV) all,dev,docs
	@touch $(VENV)/.installed $(VENV)/.installed-dev $@

tests/clients/node_modules/.installed: tests/clients/package.json scripts/install-clients | system-packages
	@scripts/install-clients tests/clients
	@touch $@

tests/agents/node_modules/.installed: tests/agents/package.json scripts/install-clients | system-packages
	@scripts/install-clients tests/agents
	@touch $@
