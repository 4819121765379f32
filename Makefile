# Two commands matter: `make demo` and `make test`. Everything runs inside .venv.
PYTHON ?= python3
BIN := .venv/bin
SCRIPTS := videomme_pipeline/reports/templates/script
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps
SHARD ?= 1/1
SAMPLE ?= 100
SEED ?= 1
SLOW_RUNS := .ci/slow-runs
UV_COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-header --quiet

# Tests start hundreds of processes: with stored bytecode, each module is compiled only once.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo demo-offline cluster-demo test test-slow test-engines test-clusters test-perf coverage mutation lint format ui bench docs lock release audit clean

help: ## List all commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: .venv/installed ## Run the smoke benchmark through the whole pipeline and show the scores
	@$(BIN)/videomme run --benchmark smoke --benchmark smoke_v2

demo-offline: .venv/installed ## Run the demo with local files only: drawn videos, models without weights
	@VIDEOMME_CONFIGURATION=assets/offline VIDEOMME_DATA=data/offline \
	  $(BIN)/videomme run --benchmark smoke --benchmark smoke_v2

cluster-demo: .venv/installed-dev ## Run the smoke benchmark on Dask with Slurm or two workers, PostgreSQL and S3 on this machine
	@$(BIN)/python -m perf.cluster_demo

ui: .venv/installed ## Open the Dagster UI on http://localhost:3000
	@$(BIN)/videomme ui

test: .venv/installed-dev lint ## Lint, then run the everyday tests in four processes
	$(BIN)/pytest -m "not slow" -n 4 --dist loadscope --no-loadscope-reorder --shard 1/1

test-slow: .venv/installed-dev ## Run the tests that are marked slow, or a quarter of them (SHARD=1/4)
	@commit=$$(git rev-parse --short HEAD); \
	git diff --quiet HEAD -- . ':!$(SLOW_RUNS)' || commit="$$commit with changes"; \
	$(BIN)/pytest -m "slow and not (engine or cluster or measurement)" -n 4 --dist loadscope \
	  --no-loadscope-reorder --shard $(SHARD) && \
	echo "$$(date -u +%Y-%m-%d) shard $(SHARD) passed at $$commit" >> $(SLOW_RUNS)

test-engines: .venv/installed-dev ## Run the tests of real engines (CONTRIBUTING.md names their environments)
	$(BIN)/pytest -m engine

test-clusters: .venv/installed-dev ## Run the tests of Dask and of Slurm, which they start on this machine, as root
	$(BIN)/pytest -m cluster

test-perf: .venv/installed-dev ## Run each measurement of perf/ in its quick form, and the limits of time and memory
	$(BIN)/pytest -m measurement

coverage: .venv/installed-dev ## Run the everyday tests and list the lines that they miss
	$(BIN)/pytest -m "not slow" -n 4 --dist loadscope --cov=videomme_pipeline \
	  --cov-branch --cov-report=term-missing:skip-covered

mutation: .venv/installed-dev ## Count changes of the code that no test notices, of a sample in each room (SAMPLE=100 SEED=1 ROOM=frames)
	$(BIN)/python -m tests.support.mutation --sample $(SAMPLE) --seed $(SEED) $(ROOM)

lint: .venv/installed-dev ## Run ruff, oxlint, mypy, the layer rules, dg check, links of the docs, the word list and subjects of commits
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/oxlint $(SCRIPTS)
	$(BIN)/oxfmt --check $(SCRIPTS)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/dg check defs
	$(BIN)/zensical build --strict
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[bn]*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/python -m tests.support.word_list
	$(BIN)/python -m tests.support.commit_subjects

format: .venv/installed-dev ## Fix and format the code with ruff and oxfmt
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/oxfmt $(SCRIPTS)

bench: .venv/installed-dev ## List the performance scripts
	@$(BIN)/python -m perf

docs: .venv/installed-dev ## Build the documentation site into site/ and check its links
	$(BIN)/zensical build --clean --strict

# With rfc3987-syntax, jsonschema builds a grammar in each process that draws a chart (2.5 s of CPU).
lock: ## Pin every dependency with its hash (needs uv)
	$(UV_COMPILE) --extra demo --group build --output-file requirements.lock
	$(UV_COMPILE) --extra demo --extra alerts --extra charts --extra cluster --extra decord --extra postgres --extra s3 \
	  --group build --group dev --no-emit-package rfc3987-syntax --no-emit-package lark \
	  --constraint requirements.lock --output-file requirements-dev.lock
	$(UV_COMPILE) --extra cluster --extra kubernetes --extra postgres --extra s3 --group build \
	  --constraint requirements.lock --output-file deploy/requirements.lock

TAG = v$(shell $(BIN)/python -m hatchling version)

# The times in the packages are that of the commit, so that everybody builds the same bytes.
release: .venv/installed-dev ## Build the packages and their checksums into dist/, and tag the commit
	@test -z "$$(git status --porcelain)" || { git status --short; echo "Commit or remove these first."; exit 1; }
	@tagged=$$(git rev-parse -q --verify "$(TAG)^{commit}" || git rev-parse HEAD); \
	test "$$tagged" = "$$(git rev-parse HEAD)" || { echo "$(TAG) is another commit: raise the version first."; exit 1; }
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/bill-of-materials.cdx.json requirements.lock
	cd dist && sha256sum * > SHA256SUMS
	@git tag --force "$(TAG)" && echo "This commit is tagged $(TAG). Publish it: git push origin $(TAG)"

audit: .venv/installed-dev ## Look up known vulnerabilities of the pinned packages (needs the network)
	$(BIN)/pip-audit --require-hashes --disable-pip -r requirements.lock
	$(BIN)/pip-audit --require-hashes --disable-pip -r requirements-dev.lock

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, found " + sys.version.split()[0])'
	@$(PYTHON) -m venv .venv

# Every dependency is pinned, so pip has nothing to resolve.
.venv/installed: requirements.lock pyproject.toml | .venv/bin/python
	@echo "Installing into .venv (a few minutes the first time) …"
	@$(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@

.venv/installed-dev: requirements-dev.lock .venv/installed
	@echo "Installing development tools into .venv …"
	@$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

clean: ## Remove the environment and the caches of tools (the data folder stays)
	rm -rf .venv .cache site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist mutants
