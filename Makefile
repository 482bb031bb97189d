# Everything runs in .venv, which is made from what pyproject.toml asks for. Needs Python 3.11 or newer, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-all lint types docs scale clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.base ## set up and run the main job on embedded data
	$(BIN)/nearkin demo

test: $(VENV)/.test ## set up and run all tests (heavy optional parts where they are installed)
	$(BIN)/python -m pytest -n auto -q

test-all: $(VENV)/.test $(VENV)/.docs lint types docs ## everything, and a skipped test is a failure
	$(BIN)/python tests/passed.py || NEARKIN_NO_SKIPS=1 $(BIN)/python -m pytest -n auto -q $$($(BIN)/python tests/passed.py --left)

.PHONY: torch
torch: $(VENV)/.torch ## torch, so that the tests of networks and of the GPU kernels run too (in an interpreter)

.PHONY: engines
engines: $(VENV)/.engines ## search engines, so that the tests against them run too

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

docs: $(VENV)/.docs ## build the documentation into site/, warnings are errors
	$(BIN)/mkdocs build --strict -q

scale: $(VENV)/.base ## repeat the experiment behind scale="auto" (NEARKIN_DATA names the data folder)
	$(BIN)/python benchmarks/scale.py

.PHONY: bench bench-quick
bench: $(VENV)/.bench ## measure speed and memory, up to 25 minutes (NEARKIN_DATA names the data folder)
	$(BIN)/python -m benchmarks

bench-quick: $(VENV)/.bench ## the same with few sizes, under 3 minutes
	$(BIN)/python -m benchmarks --quick

.PHONY: dask soak
dask: $(VENV)/.dask ## install what the tests of clusters need

soak: $(VENV)/.base ## ten minutes of an endless stream with kills and damage
	$(BIN)/python -m benchmarks.soak --report benchmarks/results/soak.txt

.PHONY: browser
browser: $(VENV)/.browser ## install what the tests of pages need: chromium (by apt) and playwright; and cleanlab
	@command -v chromium >/dev/null || { \
	  as_root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$as_root apt-get update -q && $$as_root apt-get install -q -y --no-install-recommends chromium; }

clean: ## remove everything that was made
	rm -rf $(VENV) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .numba_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nearkin needs Python 3.11 or newer; name one with PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.base

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plots]'
	@touch $@

$(VENV)/.browser: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[browser,images,cleanlab]'
	@touch $@

$(VENV)/.dask: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dask]' cryptography
	@touch $@

$(VENV)/.torch: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 triton safetensors pytorch-metric-learning ziglang
	@touch $@

$(VENV)/.engines: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[engines]'
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@
