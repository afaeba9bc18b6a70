# Every target sets up what it needs inside the checkout; nothing has to be activated.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
PYTEST_ARGS ?=
COVERAGE ?=
COVERAGE_ARGS = $(if $(COVERAGE),--cov=doxtr_rag --cov-report=term)
SPHINX_VERSIONS ?= 7.4.7 8.2.3 9.0.4
SPHINX_SKIP ?=
EXTENSION := doxtr_rag/pi_extension
EXTENSION_STAMP := $(EXTENSION)/node_modules/.installed
SOAK_STEPS ?= 40
SOAK_RUNS ?= 50
SOAK_KILLS ?= 210
SOAK_SERVER_KILLS ?= 40

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test fast qa lint mypy fmt docs clean bench bench-agents bench-scale soak durability verifier dox-build \
	sphinx-versions sphinx92 tsc tstest xlang pi-e2e

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-17s%s\n", $$1, $$2}' Makefile

setup: $(STAMP)  ## make .venv and install the package and its tools into it

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a minute or two the first time)"
	@$(BIN)/python -m pip install -qq -e '.[dev]'
	@touch $@

demo: $(STAMP)  ## index Sphinx's own documentation and ask it three questions
	@$(BIN)/python tools/demo.py

test: $(STAMP)  ## run the tests that need no GPU; make durability has the rest (COVERAGE=1: coverage too)
	@$(PYTEST) -q -m "not gpu and not durability" $(COVERAGE_ARGS) $(PYTEST_ARGS)

fast: $(STAMP)  ## run the tests that take seconds
	@$(PYTEST) -q -m "not gpu and not slow and not corpus and not durability" $(PYTEST_ARGS)

qa: lint tsc tstest  ## the whole gate: lint, types, import contracts, tests with coverage
	@$(MAKE) --no-print-directory test COVERAGE=1

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

mypy: $(STAMP)  ## check the types
	@$(BIN)/mypy

$(EXTENSION_STAMP): $(EXTENSION)/package-lock.json
	@echo "installing the tools of the Pi extension"
	@cd $(EXTENSION) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

tsc: $(EXTENSION_STAMP)  ## check the types of the Pi extension
	@cd $(EXTENSION) && npx tsc --noEmit

tstest: $(EXTENSION_STAMP)  ## run the tests of the Pi extension
	@cd $(EXTENSION) && npx vitest run

xlang: $(STAMP) $(EXTENSION_STAMP)  ## ingest with Python, query with TypeScript, compare
	@$(PYTEST) -q tests/test_cross_language.py $(PYTEST_ARGS)

pi-e2e: $(STAMP)  ## run the extension and the MCP server inside the real Pi agent
	@$(PYTEST) -q pi_e2e $(PYTEST_ARGS)

fmt: $(STAMP)  ## format the code and repair what ruff can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(STAMP)  ## build the documentation, warnings are errors
	@$(BIN)/doxtr-rag fetch-weights --profile minilm-offline --quiet
	@$(BIN)/sphinx-build -nW --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

verifier: $(STAMP)  ## compare the warnings of HTML and LaTeX builds with test_harness/baseline.json
	@$(BIN)/python test_harness/verifier.py

dox-build: $(STAMP)  ## build Sphinx's own documentation and compare with the baseline
	@$(PYTEST) -q tests/test_dox_reference_build.py tests/sphinx_ext/test_byte_identity.py $(PYTEST_ARGS)

sphinx-versions: $(STAMP)  ## run the Sphinx side on every supported Sphinx
	@PYTHON=$(BIN)/python tools/sphinx_versions.sh $(SPHINX_SKIP:%=--skip %) $(SPHINX_VERSIONS)

sphinx92:  ## run the Sphinx side on Sphinx 9.2 (needs Python 3.13)
	@tools/sphinx92.sh

bench: $(STAMP)  ## measure build and search on this machine
	@$(BIN)/python benchmarks/main_job.py $(BENCH_ARGS)

bench-agents: $(STAMP) $(EXTENSION_STAMP)  ## measure searches through the server beside raw Chroma queries
	@$(BIN)/python benchmarks/agents.py $(BENCH_ARGS)

bench-scale: $(STAMP)  ## measure a store of 1,000, 10,000 and 100,000 chunks (half an hour)
	@$(BIN)/python benchmarks/scale.py $(BENCH_ARGS)

soak: $(STAMP)  ## edit, kill and rebuild at random for a while, then compare with a clean build
	@CONVERGENCE_STEPS=$(SOAK_STEPS) CONVERGENCE_RUNS=$(SOAK_RUNS) \
		$(PYTEST) -q tests/test_convergence.py $(PYTEST_ARGS)
	@DURABILITY_KILLS=$(SOAK_KILLS) DURABILITY_SERVER_KILLS=$(SOAK_SERVER_KILLS) \
		$(PYTEST) -q tests/durability $(PYTEST_ARGS)

durability: $(STAMP)  ## kill 30 runs, fill disks and race processes (DURABILITY_SEED, DURABILITY_CASE)
	@$(PYTEST) -q tests/durability $(PYTEST_ARGS)

clean:  ## remove everything that make made in the checkout
	rm -rf $(VENV) .cache .doxtr .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf $(EXTENSION)/node_modules build dist doxtr_rag.egg-info docs/_build docs/.doxtr test_harness/_build .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
