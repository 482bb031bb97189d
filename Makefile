# Every target runs in .venv, which make builds from pyproject.toml. You need Python 3.11 or newer, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python keeps the bytecode of what it imports, pytest that of tests; of all that pip installs most is never imported.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: help demo test test-all lint types docs scale clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.base ## set up and run the main job on built-in data
	$(BIN)/nearkin demo

test: $(VENV)/.test ## set up and run the fast tests, about four minutes on two cores
	$(BIN)/python -m pytest -n auto --dist worksteal -q -m 'not slow'

test-all: $(VENV)/.test $(VENV)/.docs ## lint, types, documentation and every test; skipping a test fails (make parts first)
	$(MAKE) -j2 lint types docs
	NEARKIN_NO_SKIPS=1 $(BIN)/python -m pytest -n auto --dist worksteal -q

.PHONY: test-python test-oldest dist coverage
VERSION ?= 3.13
# A Python by its version: the one that pyenv has, or the one on the path.
interpreter = $(or $(lastword $(sort $(wildcard $(HOME)/.pyenv/versions/$(1).*/bin/python))),python$(1))

test-python: ## the fast tests under another Python, in a venv of its own: make test-python VERSION=3.13
	$(MAKE) test VENV=.venv-$(VERSION) PYTHON=$(call interpreter,$(VERSION))

test-oldest: .venv-oldest/.test ## the fast tests with the oldest versions that pyproject.toml allows, on Python 3.11
	.venv-oldest/bin/python -m pytest -n auto --dist worksteal -q -m 'not slow'

dist: $(VENV)/.dist ## build wheel and sdist into dist/, install each into an empty venv, and try it away from the checkout
	rm -rf dist && $(BIN)/python -m build -q && $(BIN)/twine check --strict dist/*
	for built in dist/*.whl dist/*.tar.gz; do \
	  rm -rf .venv-dist && $(PYTHON) -m venv .venv-dist && \
	  .venv-dist/bin/python -m pip install --quiet --disable-pip-version-check "$$built" && \
	  cp tests/smoke.py .venv-dist/ && (cd .venv-dist && bin/python -I -W error smoke.py) || exit 1; \
	done

coverage: $(VENV)/.parts $(VENV)/.test ## lines and branches that the fast tests reach; twins stand for compiled loops; fails below the floor
	$(INSTALL) 'pytest-cov>=6'
	$(BIN)/python -m pytest -n auto --dist worksteal -q -m 'not slow' --cov --cov-report=term:skip-covered

.PHONY: parts chromium
parts: $(VENV)/.parts chromium ## install what else tests can use: torch, a C compiler, dask, search engines, cleanlab, playwright, chromium

chromium: ## install chromium by apt, where there is none
	@command -v chromium >/dev/null || { \
	  as_root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$as_root apt-get update -q && $$as_root apt-get install -q -y --no-install-recommends chromium; }

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

docs: $(VENV)/.docs ## build the documentation into site/; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -j auto -d .sphinx docs site

scale: $(VENV)/.base ## repeat the experiment behind scale="auto" (set NEARKIN_DATA to the data folder)
	$(BIN)/python benchmarks/scale.py

.PHONY: records
records: $(VENV)/.base ## tell which records in results/ are of today's code; fails if any is older
	$(BIN)/python -m benchmarks.records

.PHONY: replicate
JOBS ?= $(shell nproc)
replicate: $(VENV)/.base ## make every record in results/ again: three core-hours (set NEARKIN_DATA to the data folder)
	$(BIN)/python -m benchmarks.replicate --jobs $(JOBS)

.PHONY: bench bench-quick
bench: $(VENV)/.bench ## measure speed and memory, up to 25 minutes (set NEARKIN_DATA to the data folder)
	$(BIN)/python -m benchmarks

bench-quick: $(VENV)/.bench ## the same for a few sizes, under 3 minutes
	$(BIN)/python -m benchmarks --quick

.PHONY: soak
soak: $(VENV)/.base ## stream for ten minutes while processes are killed and files damaged
	$(BIN)/python -m benchmarks.soak --report benchmarks/results/soak.txt

.PHONY: fuzz
FUZZ_S ?= 600
fuzz: $(VENV)/.test ## attack files, commands, streams and numbers for FUZZ_S seconds (default 600); FUZZ_SEED repeats a run
	$(BIN)/python -m fuzz --seconds $(FUZZ_S) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

clean: ## remove everything that make built
	rm -rf $(VENV) .venv-* site .sphinx docs/auto_examples docs/reference/generated docs/reference/backreferences dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .numba_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nearkin needs Python 3.11 or newer; name one with PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/.base

# uv takes the lowest versions; pip cannot.
.venv-oldest/.test: pyproject.toml
	$(call interpreter,3.11) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct -e '.[test]'
	@touch $@

$(VENV)/.dist: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) build twine
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[plots]'
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[docs]'
	@touch $@

# One call: pip builds the package and looks for versions once.
$(VENV)/.parts: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[browser,images,cleanlab,dask,engines,docs,river,pml]' cryptography \
	  torch==2.13.0 triton ziglang
	@touch $@ $(VENV)/.base $(VENV)/.docs
