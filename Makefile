# Every target is one call of tools/bootstrap.py, which also works without make: python -m tools.bootstrap TARGET
# PYTHON=python3.12 chooses the interpreter; ARGS="..." is handed on.

# Any Python from 3.7 on can read tools/bootstrap.py, which then looks for the one that fits best.
NAMES = python3 python3.14 python3.13 python3.12 python3.11 $(PYTHON) `seq -f python3.%g 15 40` python
TRY = -c 'from __future__ import annotations' >/dev/null 2>&1
FIRST = $(shell for p in $(NAMES); do $$p $(TRY) && echo $$p && break; done)
RUN = $(or $(FIRST),$(error labkit needs Python 3.11 or newer with pip, and no Python was found)) -m tools.bootstrap
ifdef PYTHON
export PYTHON
endif

.DEFAULT_GOAL := help
.PHONY: help venv lab test lint types floors unit nbval browser notebooks bench lock clean

help: ## this list
	@echo "labkit: a course on circuit breakers in JupyterLab. Needs Python 3.11 or newer with pip."
	@sed -n 's/^\([a-z]*\):.*## /  make \1 \t/p' Makefile | expand -t 20

lab: ## opens the course in JupyterLab, in ./labkit-course (ARGS="--port 9000 --no-browser")
	@$(RUN) lab $(ARGS)

test: ## everything that must hold, as CI runs it
	@$(RUN) test $(ARGS)

venv: ## the environment alone: .venv with the pinned versions of requirements.lock
	@$(RUN) venv

lint: ## ruff: format and rules
	@$(RUN) lint $(ARGS)

types: ## mypy --strict
	@$(RUN) types $(ARGS)

floors: ## import-linter: the floors of ARCHITECTURE.md
	@$(RUN) floors $(ARGS)

unit: ## pytest: units, properties, doctests (ARGS="-k breaker")
	@$(RUN) unit $(ARGS)

nbval: ## the notebooks, executed and compared with what they hold
	@$(RUN) nbval $(ARGS)

browser: ## the notebooks in a real JupyterLab; needs Chromium (Debian, Ubuntu: apt-get install chromium)
	@$(RUN) browser $(ARGS)

notebooks: ## executes the notebooks and saves their outputs
	@$(RUN) notebooks $(ARGS)

bench: ## the benchmarks, on this Python and the newest supported one found
	@$(RUN) bench $(ARGS)

lock: ## resolves requirements.lock anew from pyproject.toml
	@$(RUN) lock $(ARGS)

clean: ## removes environments and caches; leaves ./labkit-course alone
	@$(RUN) clean
