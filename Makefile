# Each target sets up what it needs: `make demo` and `make test` work on a fresh machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Tests and measurements on real data read this folder; where it is absent they say so and skip.
FEDONCE_DATA ?= $(wildcard ../shared/datasets)
export FEDONCE_DATA

.PHONY: demo test lint bench results clean

demo: $(VENV)/.report
	$(BIN)/fedonce demo --out fedonce-demo

test: $(VENV)/.test
	$(BIN)/python -m pytest --durations=10

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.nat_speed
	$(BIN)/python -m benchmarks.memory

# The tables of the README and of docs/learners.md: an hour without the images, which want a GPU. Needs FEDONCE_DATA.
results: $(VENV)/.bench
	$(BIN)/python -m benchmarks.digits
	$(BIN)/python -m benchmarks.learners --dims 3,8 --seeds 1
	$(BIN)/python -m benchmarks.learners --learners solo,auto,combine --part test
	$(BIN)/python -m benchmarks.tables --write

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fedonce needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per extra: the feature's packages are installed, at the versions of constraints.txt.
$(VENV)/.%: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) fedonce-demo
