# Each target sets up what it needs: `make demo` and `make test` work on a fresh machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Tests and measurements on real data read this folder; where it is absent they say so and skip.
FEDONCE_DATA ?= $(wildcard ../shared/datasets)
export FEDONCE_DATA
# The paper's LaTeX source, which the presets are compared with, number by number; likewise.
FEDONCE_PAPER ?= $(wildcard ../shared/paper/fedonce.tex)
export FEDONCE_PAPER

.PHONY: demo federation-demo test test-federation test-federation-all lint docs notebooks bench results experiments report clean

demo: $(VENV)/.privacy
	$(BIN)/fedonce demo --out fedonce-demo

# A federation of six processes on this machine: a minute or two. Ends what it started, also on Ctrl-C.
federation-demo: $(VENV)/.nvflare
	$(BIN)/fedonce federation demo --out fedonce-federation-demo

# Two workers of one thread each: more threads than cores only wait for each other.
test: $(VENV)/.test $(VENV)/.xgboost
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not federation" -n 2 --dist worksteal --durations=10

# Real servers and guests as processes on loopback: one test for each thing that only they can show.
test-federation: $(VENV)/.test
	$(BIN)/python -m pytest tests -m "federation and not slow_federation" -n 2 --dist loadfile --durations=10

# All of them, killed and frozen at every stage: twenty minutes. Before a release, and after changes to federation/flare.
test-federation-all: $(VENV)/.test
	$(BIN)/python -m pytest tests -m federation -n 2 --dist loadfile --durations=10

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation site, in build/docs: every warning is an error, and links and anchors are checked. Fetches nothing.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html -c docs/site docs build/docs
	$(BIN)/python docs/site/check.py build/docs

# The pages of examples/notebooks, with what their cells print: a minute.
notebooks: $(VENV)/.test
	$(BIN)/python docs/site/notebooks.py

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.speed.nat
	$(BIN)/python -m benchmarks.speed.quickstart
	$(BIN)/python -m benchmarks.speed.demo
	$(BIN)/python -m benchmarks.speed.dpsgd
	$(BIN)/python -m benchmarks.speed.memory
	$(BIN)/python -m benchmarks.speed.cooccurrence
	$(BIN)/python -m benchmarks.speed.loading
	$(BIN)/python -m benchmarks.speed.table_readers
	$(BIN)/python -m benchmarks.speed.coders
	$(BIN)/python -m benchmarks.speed.large_tables
	$(BIN)/python -m benchmarks.speed.alignment
	$(BIN)/python -m benchmarks.speed.host_fit
	$(BIN)/python -m benchmarks.speed.leakage
	$(BIN)/python -m benchmarks.speed.federation

# The tables of the README and of docs/: many hours, less where results are there already; images want a GPU. Needs FEDONCE_DATA.
results: $(VENV)/.bench
	for name in digits learners datasets overlap; do $(BIN)/python -m benchmarks.run $$name || exit 1; done
	$(BIN)/python -m benchmarks.speed.federation_simulator
	$(BIN)/python -m benchmarks.report.tables --write

# Every experiment of benchmarks/experiments: many hours, less where results are there already; images want a GPU.
experiments: $(VENV)/.bench $(VENV)/.xgboost
	for file in benchmarks/experiments/*.toml; do $(BIN)/python -m benchmarks.run $$file || exit 1; done

# docs/results.md, its pictures, and the tables of README.md and docs/, from benchmarks/results.
report: $(VENV)/.bench
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m benchmarks.report.tables --write

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fedonce needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per extra: the feature's packages are installed, at the versions of constraints.txt.
$(VENV)/.%: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[$*]'
	@touch $@

# Tests of the biased division need XGBoost; without its dependencies, which are a GPU library of hundreds of megabytes.
$(VENV)/.xgboost: $(VENV)/bin/python constraints.txt
	$(PIP) --no-deps xgboost
	@touch $@

clean:
	rm -rf $(VENV) build/docs fedonce-demo fedonce-federation-demo
