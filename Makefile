# The first two targets are all that a newcomer needs; `make help` lists the others.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
# What pip is asked for first. `TORCH=torch==2.13.0` pins it; without, the newest wheel is taken.
TORCH ?= torch
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
# Of what is installed most is never loaded: Python compiles what is, when it is.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Files in their order: those whose tests take long come first.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

CHECKS := audit check-generated arch lint fmt-check

.PHONY: help demo test test-slow ci fmt fmt-check lint types arch check-generated goldens generate bench mutations clean audit

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV), which takes some minutes"
	$(INSTALL) "$(TORCH)"
	$(INSTALL) -e ".[run,serve,demo,dev]"
	touch $@

demo: $(READY) ## Ask the spoken question in examples/ and write the spoken answer to build/answer/
	$(BIN)/mstarc compile specs/voice_chat.mstar -o build/voice_chat
	$(BIN)/mstarc run build/voice_chat --placement cpu \
	    --request examples/question.json --out build/answer

test: $(READY) ## Run all tests that this machine can run
	$(PYTEST)

test-slow: $(READY) ## The same with all cases, and properties with ten times as many examples
	MSTARC_EXAMPLES=10 $(PYTEST) -m ""

# mypy keeps a core busy for a minute: it runs beside the tests, and what it says stands between
# their dots as a whole.
ci: $(READY) ## Everything that must hold, tests last
	$(MAKE) --no-print-directory -j $(WORKERS) --output-sync=target $(CHECKS)
	failed=0; (said=$$($(BIN)/mypy 2>&1) && status=0 || status=$$?; \
	    printf '\nmypy: %s\n' "$$said"; exit $$status) & types=$$!; \
	$(PYTEST) || failed=$$?; \
	wait $$types || { failed=1; echo "mypy has found something: see above"; }; \
	exit $$failed

fmt: $(READY) ## Write the code in its one form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mstarc fmt specs/*.mstar

fmt-check: $(READY) ## Check that code and specs are in that form
	$(BIN)/ruff format --check .
	$(BIN)/mstarc fmt --check specs/*.mstar

lint: $(READY) ## Look for likely mistakes in the code
	$(BIN)/ruff check .

types: $(READY) ## Check types, strictly
	$(BIN)/mypy

arch: $(READY) ## Check which folder imports which
	$(BIN)/lint-imports

check-generated: $(READY) ## Compile the shipped specs and compare with generated/
	$(BIN)/python -m tests.support.generated --check

generate: $(READY) ## Compile the shipped specs into generated/; then read the diff
	$(BIN)/python -m tests.support.generated

audit: $(READY) ## Look up what is known of the packages that are installed
	$(BIN)/python -m tests.support.audit

goldens: $(READY) ## Rewrite what tests compare with; then read the diff
	$(BIN)/python -m pytest --update-goldens

bench: $(READY) ## Measure what the host does in a decode step
	$(BIN)/python benchmarks/host_step.py

mutations: $(READY) ## Break specs and deployments as people do, and count what is noticed
	$(BIN)/python benchmarks/mutations.py
	$(BIN)/python benchmarks/lint_start.py

clean: ## Remove what was built, but not .venv
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
