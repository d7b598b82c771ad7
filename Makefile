# Each target sets up what it needs: `make demo` and `make test` work on a fresh machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# On Linux the package index gives torch with gigabytes of CUDA. So the small build for CPUs is taken from here, if this index can be
# reached. `make TORCH=default demo` leaves the choice to pip (after `make clean`, where another torch is installed).
TORCH ?= cpu
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

# Tests and measurements on real data read this folder; where it is absent they say so and skip.
FEDONCE_DATA ?= $(wildcard ../shared/datasets)
export FEDONCE_DATA
# The paper's LaTeX source, which the presets are compared with, number by number; likewise.
FEDONCE_PAPER ?= $(wildcard ../shared/paper/fedonce.tex)
export FEDONCE_PAPER

.PHONY: demo federation-demo test test-federation test-federation-all test-oldest lint docs notebooks dist dist-check \
  bench results experiments report clean

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
	$(BIN)/zizmor --quiet --offline .github
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec compose.yaml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/hadolint Dockerfile

# dist/: the sdist, and the wheel that is built from it.
dist: $(VENV)/.dist
	rm -rf dist
	$(BIN)/python -m build

# The wheel in a clean environment in a temporary folder: every module, then the demonstration. A minute or two.
dist-check: dist
	$(BIN)/python .ci/check_wheel.py dist/*.whl

# The oldest versions that pyproject.toml allows, together; by uv, since pip cannot choose them. torch of the package index: 6 GB.
# Twice, since the extra onnx needs a newer torch than all else.
OLDEST := report,privacy,psi,crypto,skops,nvflare
OLDEST_UV := $(BIN)/uv pip install --quiet --python .venv-oldest --resolution lowest-direct
test-oldest: $(VENV)/bin/python
	$(PIP) uv
	$(BIN)/uv venv --quiet --clear .venv-oldest
	$(OLDEST_UV) '.[$(OLDEST)]' 'pytest>=8.4' 'hypothesis>=6.100' 'pandas>=2.2.2' 'polars>=1.5'
	OMP_NUM_THREADS=1 .venv-oldest/bin/python examples/quickstart.py
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -m "not federation" tests/test_golden.py tests/engine tests/learners tests/hostmodels -k "not other_systems"
	$(OLDEST_UV) '.[$(OLDEST),onnx]' 'polars>=1.5'
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -m "not federation" tests/messages tests/data tests/rows tests/export tests/cli

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
	$(BIN)/python -m benchmarks.speed.convolutions
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

# The tables of README.md and docs/: many hours, less where results are there already; images want a GPU. Needs FEDONCE_DATA.
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

# Only torch and what it needs may come from its index; who cannot reach it takes torch from where pip takes all else.
$(VENV)/.torch: $(VENV)/bin/python constraints.txt
	@index=; if [ '$(TORCH)' = cpu ] && [ "$$(uname -s)" = Linux ]; then \
	  if $(BIN)/python -c 'import urllib.request as u; u.urlopen("$(TORCH_INDEX)/torch/", timeout=5)' 2>/dev/null; \
	  then index='--extra-index-url $(TORCH_INDEX)'; \
	  else echo '$(TORCH_INDEX) cannot be reached: taking the torch that pip finds, which may bring gigabytes of CUDA'; fi; fi; \
	  echo $(PIP) torch $$index; $(PIP) torch $$index
	@touch $@

# One stamp per extra: the feature's packages are installed, at the versions of constraints.txt.
$(VENV)/.%: $(VENV)/.torch pyproject.toml constraints.txt
	$(PIP) -e '.[$*]'
	@touch $@

# Tests of the biased division need XGBoost; without its dependencies, which are a GPU library of hundreds of megabytes.
$(VENV)/.xgboost: $(VENV)/bin/python constraints.txt
	$(PIP) --no-deps xgboost
	@touch $@

clean:
	rm -rf $(VENV) .venv-oldest dist build/docs fedonce-demo fedonce-federation-demo
