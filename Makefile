# Two commands matter: `make demo` and `make test`. Everything runs inside .venv.
PYTHON ?= python3
BIN := .venv/bin
DATA ?= data
SCRIPTS := videomme_pipeline/reports/templates/script

.PHONY: help demo test test-slow lint format ui bench lock clean

help: ## What each command does
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: .venv/installed ## Run the smoke benchmark through the whole pipeline and show the scores
	@$(BIN)/videomme run --benchmark smoke --benchmark smoke_v2

ui: .venv/installed ## Open the Dagster UI on http://localhost:3000
	@$(BIN)/videomme ui

test: .venv/installed lint ## Lint, then the everyday tests with coverage
	$(BIN)/pytest -m "not slow" --cov=videomme_pipeline --cov=assets --cov-report=term:skip-covered

test-slow: .venv/installed ## The tests that take longer than the everyday run allows
	$(BIN)/pytest -m slow

lint: .venv/installed ## Ruff, oxlint, mypy, layers and the Dagster definitions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/oxlint $(SCRIPTS)
	$(BIN)/oxfmt --check $(SCRIPTS)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/dagster definitions validate -w workspace.yaml --log-level warning

format: .venv/installed ## Fix and format what ruff and oxfmt can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/oxfmt $(SCRIPTS)

bench: .venv/installed ## List the performance scripts
	@for script in perf/*.py; do $(BIN)/python -c 'import ast, sys; p = sys.argv[1]; d = ast.get_docstring(ast.parse(open(p).read())); d and print(f"{p:32} {d.splitlines()[0]}")' $$script; done

lock: ## Pin every dependency with its hash (needs uv)
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements.lock

# Every dependency is pinned, so pip has nothing to resolve.
.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, found " + sys.version.split()[0])'
	@test -d .venv || $(PYTHON) -m venv .venv
	@echo "Installing into .venv (a few minutes the first time) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

clean: ## Remove the environment and what tools left (the data folder stays)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
