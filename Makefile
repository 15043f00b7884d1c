# Every target builds .venv by itself when it is missing or pyproject.toml changed.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
STAMP := $(VENV)/.installed
PY := $(VENV)/bin/python
# The first interpreter that really runs and is 3.10 or newer (a pyenv shim may exist and not run).
FIND_PYTHON = for p in $(PYTHON) python3.11 python3.12 python3.10 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1 && { echo $$p; break; }; done

.PHONY: help demo test wheel test-unit faults soak bench picture docs screenshot lint format clean venv

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(STAMP) ## build .venv (python >= 3.10)

# Changed sources of compiled modules are compiled again. Python compiles what it imports; all that is installed would take minutes.
COMPILED := $(shell find src -name '*.pyx' -o -name '*.pxd')

$(STAMP): pyproject.toml setup.py $(COMPILED) $(wildcard $(COMPILED:.pxd=.py))
	@python=$$($(FIND_PYTHON)); \
	if [ -z "$$python" ]; then echo "Python 3.10 or newer is needed; set PYTHON=/path/to/python" >&2; exit 1; fi; \
	echo "building $(VENV) with $$python"; \
	if [ ! -x $(PY) ] || ! $(PY) -c '' 2>/dev/null; then rm -rf $(VENV) && $$python -m venv $(VENV); fi
	@extra=dev; command -v java >/dev/null 2>&1 || [ -n "$$JAVA_HOME" ] || extra=dev,jdk; \
	$(VENV)/bin/pip install -q --disable-pip-version-check --no-compile -e ".[$$extra]"
	@touch $(STAMP)

demo: $(STAMP) ## run the demonstration
	@$(VENV)/bin/flint demo

# Two processes, each with a Spark of its own. A file's tests stay together; the short ones, which come last, even it out.
# One that dies ends the run: the tests of its file would never be over.
IN_TWO := -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart=0

test: $(STAMP) ## all tests
	$(PY) -m pytest -q $(IN_TWO) $(ARGS)

wheel: $(STAMP) ## a wheel in dist/, compiled for this platform and Python
	$(VENV)/bin/pip wheel -q --disable-pip-version-check --no-deps -w dist .

test-unit: $(STAMP) ## the tests that need no Spark
	$(PY) -m pytest -q tests/unit $(ARGS)

faults: $(STAMP) ## jobs hurt at random for up to 15 minutes; FLINT_FAULT_SEED=<seed> FLINT_FAULT_ROUNDS=1 hurts one again
	FLINT_FAULT_ROUNDS=$${FLINT_FAULT_ROUNDS:-32} $(PY) -m pytest -q -s tests/faults/test_hurts.py tests/faults/test_kafka_hurts.py tests/faults/test_server.py $(ARGS)

soak: $(STAMP) ## a job watched for FLINT_SOAK_MINUTES (30): memory, descriptors, files and epochs must be flat
	$(PY) -m bench.soak $(ARGS)

bench: $(STAMP) ## ratios against peers and the bare Python loop
	$(PY) -m bench $(ARGS)

picture: $(STAMP) ## docs/assets/speed.svg, drawn from bench/picture.json; see docs/benchmarks.md
	$(PY) -m bench.picture $(ARGS)

docs: $(STAMP) ## the documentation as a site in build/site; `make docs SERVE=1` shows it at localhost:8000
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs $(if $(SERVE),serve,build) --strict

screenshot: $(STAMP) ## the picture of the page in the README, of a job that runs for a minute
	$(PY) -m tests.browser.screenshot docs/assets/page.png

lint: $(STAMP) ## ruff, mypy, import-linter
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(STAMP) ## rewrite the code in the house style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean: ## remove what was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
