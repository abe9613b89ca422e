# `make run` and `make test` do all their set-up themselves. Needs Python 3.11 or 3.12, Java 17, Maven and make.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
KERNELS := $(shell find matching state schemas streams spark_batch benchmarks -name '*.py')
# Without bytecode on disk every process compiles every source anew: a tenth of what the tests take.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test lint bench soak clean

help: ## what there is
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

$(VENV)/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' || \
	  { echo "Python 3.11 or 3.12 is needed: install it (Debian: apt-get install python3.11 python3.11-venv), or set PYTHON=…" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[spark,dev]'
	@touch $@

# Maven copies the jars that a pom of ours names; the folder is the target, so a changed pom fetches again.
.jars/%/ready: pastforward/jars/%/pom.xml
	@command -v java >/dev/null || { echo "Java is missing: install a Java 17 runtime (Debian: apt-get install openjdk-17-jre-headless)" >&2; exit 1; }
	@command -v mvn >/dev/null || { echo "Maven is missing: install it (Debian: apt-get install maven)" >&2; exit 1; }
	@rm -rf $(@D)
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(abspath $(@D))
	@touch $@

# What a broker has loaded is kept, so that the next one starts in half the time.
.jars/kafka/classes.jsa: .jars/kafka/ready $(VENV)/ready
	$(BIN)/python -m pastforward.archive

# Numba keeps what it compiles beside the sources; compiled here, no test and no worker waits for it.
$(VENV)/kernels: $(VENV)/ready $(KERNELS)
	$(BIN)/python -m pastforward.kernels
	@touch $@

setup: $(VENV)/ready .jars/kafka/ready .jars/spark/ready .jars/kafka/classes.jsa $(VENV)/kernels ## virtual environment, jars, compiled kernels

run: setup ## a broker, a worker, and a scene to watch
	$(BIN)/pastforward demo

test: setup lint ## linters and all tests, against a real broker
	$(BIN)/pytest --numprocesses 4 --dist loadgroup

lint: $(VENV)/ready ## formatter, linter, types, direction of dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## every figure that the documents state
	$(BIN)/pastforward bench all

soak: setup ## the long forms of the kill tests
	HYPOTHESIS_SOAK=1 $(BIN)/pytest -m soak --timeout 7200

clean: ## everything that set-up and runs have made
	rm -rf $(VENV) .jars .pastforward build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
