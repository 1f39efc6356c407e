# Epicast: everything a contributor runs. `make` alone lists the targets.
#   make test ARGS="tests/unit -k interval"   passes ARGS on to the command
#   make test PYTHON=python3.13                builds the environment with that Python

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
LOG   := $(VENV)/install.log
ARGS  ?=
SEEDS ?= 2000
ORDERS ?= 100000
HOSTILE ?= 100000
PYTHON ?= python3.11 python3 python3.14 python3.13 python3.12
SUITABLE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))

.DEFAULT_GOAL := help
.PHONY: help demo test check bench sim clean

help: ## List the targets
	@echo "Epicast. Usage: make TARGET [ARGS=...]"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## The whole story in one command
	@$(BIN)/epicast demo $(ARGS)

test: $(STAMP) ## Run every test, two at a time
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

check: $(STAMP) ## Lint, formatting and types
	@echo "ruff check"; $(BIN)/ruff check .
	@echo "ruff format --check"; $(BIN)/ruff format --check .
	@echo "mypy"; $(BIN)/mypy

bench: $(STAMP) ## Run all benchmarks (ARGS=--quick for a short look)
	@$(BIN)/python -m bench all $(ARGS)

sim: $(STAMP) ## Simulation campaign, counting up over runs (SEEDS=2000), orders (ORDERS=100000), hostile messages (HOSTILE=100000)
	@$(BIN)/epicast swarm --seeds $(SEEDS) --state out/campaign.json $(ARGS)
	@echo "$(ORDERS) runs of EpTO beside its model"
	@EPICAST_ORDERS=$(ORDERS) $(BIN)/python -m pytest -q -n 2 tests/protocols/epto/test_orders.py
	@echo "$(HOSTILE) hostile messages for simulated nodes, a tenth of that for real processes"
	@EPICAST_HOSTILE=$(HOSTILE) EPICAST_HOSTILE_SOCKETS=$$(($(HOSTILE) / 10)) \
	  $(BIN)/python -m pytest -q -n 2 tests/hostile

clean: ## Remove the environment, caches and build results
	@echo "Removing $(VENV), caches and build results"
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# pip's output goes to a file and is shown whole if a step fails. Build backends, ours and that of
# pyspark, are installed first so that they, too, are the pinned ones.
$(STAMP): pyproject.toml constraints.txt
	@set -e; \
	if ! $(BIN)/python -c '$(SUITABLE)' 2>/dev/null; then \
	  python=; \
	  for candidate in $(PYTHON); do \
	    if "$$candidate" -c '$(SUITABLE)' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	  done; \
	  if [ -z "$$python" ]; then \
	    echo "Epicast needs Python 3.11 or newer with its venv and ensurepip modules; tried:" \
	         "$(PYTHON)." >&2; \
	    echo "On Debian or Ubuntu: apt-get install python3 python3-venv." \
	         "Or name one: make PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	  fi; \
	  echo "Creating $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv --clear $(VENV); \
	fi; \
	echo "Installing Epicast and its pinned dependencies into $(VENV) (two or three minutes, once)"; \
	pip="$(BIN)/python -m pip --disable-pip-version-check --no-input install -c constraints.txt"; \
	if ! { $$pip hatchling editables setuptools wheel \
	       && $$pip --no-build-isolation -e '.[dev]'; } >$(LOG) 2>&1; then \
	  cat $(LOG) >&2; \
	  echo "The installation failed; its whole output is above and in $(LOG)." >&2; \
	  exit 1; \
	fi; \
	touch $(STAMP); \
	echo "Environment ready"
