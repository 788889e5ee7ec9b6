# Every target is complete by itself: it makes .venv from requirements.lock where that is missing or the lock has changed.
.DEFAULT_GOAL := help
.PHONY: help setup repro test unit lint format benchmark benchmark-d3rlpy lock
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv from requirements.lock; does nothing while the lock is unchanged
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh .ci/setup.sh

repro: setup ## run the whole pipeline: data, checks, splits, training, evaluation, report
	@python -m pipelines.params
	dvc repro
	@hindcast lineage --format html
	@hindcast results

PYTEST := python -m pytest -n 2 --dist loadfile --no-loadscope-reorder # a file's tests share what they have made; order: tests/conftest.py

test: setup ## run all tests: whole pipelines, those that start processes, and the quick ones
	$(PYTEST) -m "not benchmark"

unit: setup ## run the quick tests only (about a minute)
	$(PYTEST) -m "not slow and not e2e and not benchmark"

lint: setup ## check style, types and import contracts
	ruff check .
	ruff format --check .
	mypy
	lint-imports

format: setup ## rewrite the code in the project's style
	ruff check --fix .
	ruff format .

benchmark: setup ## measure speed against the alternatives, in one run, and print the tables
	python -m pytest -m benchmark -s tests/benchmarks

benchmark-d3rlpy: setup ## make .venv-d3rlpy, with which the speed of learning is compared (d3rlpy and PyTorch, gigabytes)
	python -m venv --clear .venv-d3rlpy
	.venv-d3rlpy/bin/python -m pip install --quiet --disable-pip-version-check d3rlpy==2.8.1

lock: setup ## resolve requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile --universal --python-version 3.11 --fork-strategy fewest --no-annotate --no-header --no-emit-index-url \
	  --group dev pyproject.toml --output-file requirements.lock --upgrade
