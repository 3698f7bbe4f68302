PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA := $(wildcard ../shared/data)
# bytecode is kept whatever the environment says: the tests start hundreds of processes
export PYTHONDONTWRITEBYTECODE :=
LOWEST := .venv-lowest
LOWEST_TESTS ?= $(addprefix tests/test_,$(addsuffix .py,public_api search finding frames tables plotting reports \
	simulate parity conformance result study_command pytest_plugin terminal))
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: run setup test test-long test-lowest ready kernels check bench docs tables pictures tutorials package clean

run: $(VENV)/.run  ## find the outlier workers of a simulated crowd, and draw the picture
	@$(BIN)/python -m oddarms demo

setup: $(VENV)/.dev  ## everything for development, in .venv

test: ready  ## all checks, then all tests
	@$(BIN)/python -m pytest

test-long: ready  ## the tests, with those that take long: before a release
	@$(BIN)/python -m pytest -m "long or not long"

test-lowest: $(LOWEST)/.lowest  ## some tests with the lowest versions that pyproject.toml allows
	@$(LOWEST)/bin/python -m pytest -p no:cacheprovider $(LOWEST_TESTS)

ready: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs=2 check kernels

kernels: $(VENV)/.dev  # tests of simulations would wait for them, each worker by itself
	@$(BIN)/python tests/compile_kernels.py

check: $(VENV)/.dev  ## ruff, mypy --strict, pyright on a user's script, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/basedpyright --level error --pythonpath $(BIN)/python tests/users_script.py
	@$(BIN)/lint-imports

bench: $(VENV)/.dev  ## samples, speed, growth and storage; BENCH="--quick" for the short form
	@$(BIN)/python -m benchmarks $(addprefix --data ,$(DATA)) $(BENCH)

docs: $(VENV)/.dev  ## the documentation site, in build/site; tutorials are executed
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -d build/doctrees docs build/site
	@echo "open build/site/index.html"

tables: $(VENV)/.dev  ## write the tables of pages anew, from benchmark.json and from the program
	@$(BIN)/python -m benchmarks.page docs
	@$(BIN)/python docs/_extensions/generated.py

pictures: $(VENV)/.dev  ## redraw the pictures of docs/ from seeded runs
	@$(BIN)/python -m benchmarks.pictures docs

tutorials: $(VENV)/.dev  ## run the tutorials, and write what they print into their pages
	@$(BIN)/python -m tools.tutorials

package: $(VENV)/.dev  ## wheel and sdist in dist/, built twice and tried in an empty environment
	@$(BIN)/python -m tools.package dist

clean:
	rm -rf $(VENV) $(LOWEST) build dist output .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("oddarms needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.pip: | $(VENV)/bin/python  # dependency groups need pip 25.1
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $(VENV)/.pip

$(VENV)/.dev: pyproject.toml | $(VENV)/.pip
	@echo "installing oddarms and its development tools into $(VENV)"
	@$(PIP) install --editable . --group dev
	@touch $(VENV)/.dev $(VENV)/.run

$(LOWEST)/.lowest: pyproject.toml $(VENV)/.dev
	@echo "installing the lowest versions allowed into $(LOWEST)"
	@$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(LOWEST)
	@$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		--requirements pyproject.toml --all-extras --group test --editable .
	@touch $(LOWEST)/.lowest

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	@echo "installing oddarms into $(VENV)"
	@$(PIP) install --editable '.[cli,plot]'
	@touch $(VENV)/.run
