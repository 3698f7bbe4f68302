PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA := $(wildcard ../shared/data)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: run setup test test-long check bench docs clean

run: $(VENV)/.run  ## find the outlier workers of a simulated crowd, and draw the picture
	@$(BIN)/python -m oddarms demo

setup: $(VENV)/.dev  ## everything for development, in .venv

test: check  ## all checks, then all tests
	@$(BIN)/python -m pytest

test-long: check  ## the tests, with those that take long: before a release
	@$(BIN)/python -m pytest -m "long or not long"

check: $(VENV)/.dev  ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.bench  ## samples, speed, growth and storage; BENCH="--quick" for the short form
	@$(BIN)/python -m benchmarks $(addprefix --data ,$(DATA)) $(BENCH)

docs: $(VENV)/.dev  ## redraw the pictures of docs/ from seeded runs
	@$(BIN)/python -m benchmarks.pictures docs

clean:
	rm -rf $(VENV) output .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("oddarms needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing oddarms and its development tools into $(VENV)"
	@$(PIP) install --editable '.[dev]'
	@touch $(VENV)/.dev $(VENV)/.run

$(VENV)/.bench: $(VENV)/.dev
	@echo "installing Optuna, to compare with, into $(VENV)"
	@$(PIP) install --editable '.[bench]'
	@touch $(VENV)/.bench

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	@echo "installing oddarms into $(VENV)"
	@$(PIP) install --editable '.[cli,plot]'
	@touch $(VENV)/.run
