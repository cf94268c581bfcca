# One environment for demo, tests and development: pinned by hashes, kept outside git. Needs python3 (3.11) and nothing else.
SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
LOCK := .ci/locks/development.txt
export PYTHONHASHSEED ?= 0
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-services check dev tour bench lock clean

setup: $(VENV)/.done

$(VENV)/.done: $(LOCK) .ci/locks/uv.txt pyproject.toml
	.ci/setup $(VENV)

demo: setup
	$(BIN)/affine demo

test: setup
	.ci/clean-env $(BIN)/python -m pytest -m "not services and not gpu and not live"

test-services: setup
	.ci/clean-env $(BIN)/python -m pytest -m services

check: setup
	.ci/check $(BIN)

dev: setup
	$(BIN)/affine dev

tour: setup
	.ci/clean-env $(BIN)/python -m docs.tour

bench: setup
	$(BIN)/python -m benchmarks

lock:
	.ci/lock

clean:
	rm -rf $(VENV) var build *.egg-info
