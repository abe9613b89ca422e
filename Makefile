# `make run` and `make test` do all their set-up themselves. Needs Python 3.11 to 3.13, Java 17, Maven and make.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PIP = $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
PACKAGES := columns matching state schemas streams spark_batch gateway
KERNELS := $(shell find $(PACKAGES) -name '*.py')
OTHERS := $(shell find papers benchmarks -name '*.py')
# Without bytecode on disk every process compiles every source anew: a tenth of what the tests take.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test lint types layers bench soak clean

help: ## what there is
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

# What `make run` needs: without Spark, and without what only developers use.
$(VENV)/product: pyproject.toml setup.py constraints.txt
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	  { echo "Python 3.11, 3.12 or 3.13 is needed: install it (Debian: apt-get install python3.11 python3.11-venv), or set PYTHON=…" >&2; exit 1; }
	@echo "installing packages into $(VENV)"
	@"$(PYTHON)" -m venv $(VENV)
	@$(PIP) --editable '.[worker,serve]'
	@touch $@

# By name, as the project itself must stay as it is: kernels may be compiled meanwhile.
EXTRAS := import tomllib; of = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; print(*(each for each in of['spark'] + of['dev'] if not each.startswith('pastforward')))
$(VENV)/ready: $(VENV)/product papers/pyproject.toml benchmarks/pyproject.toml
	@echo "installing Spark and tools into $(VENV)"
	@$(PIP) $$($(BIN)/python -c "$(EXTRAS)")
	@touch $@

# Maven copies the jars that a pom of ours names; the folder is the target, so a changed pom fetches again.
.jars/%/ready: pastforward/jars/%/pom.xml
	@command -v java >/dev/null || { echo "Java is missing: install a Java 17 runtime (Debian: apt-get install openjdk-17-jre-headless)" >&2; exit 1; }
	@command -v mvn >/dev/null || { echo "Maven is missing: install it (Debian: apt-get install maven)" >&2; exit 1; }
	@rm -rf $(@D)
	@echo "fetching the jars of $*"
	@mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(abspath $(@D))
	@touch $@

# What a broker has loaded is kept, so that the next one starts in half the time.
.jars/kafka/classes.jsa: .jars/kafka/ready $(VENV)/product
	@$(BIN)/python -m pastforward.preparation.archive

# Numba keeps what it compiles beside the sources; compiled here, no test and no worker waits for it.
$(VENV)/kernels: $(VENV)/product $(KERNELS)
	@$(BIN)/python -m pastforward.preparation.kernels
	@touch $@

$(VENV)/spark-kernels: $(VENV)/kernels $(VENV)/ready
	@$(BIN)/python -m pastforward.preparation.kernels --spark
	@touch $@

# Those of Spark and of the papers' algorithms as well.
$(VENV)/all-kernels: $(VENV)/ready $(KERNELS) $(OTHERS)
	@$(BIN)/python -m pastforward.preparation.kernels --all
	@touch $@ $(VENV)/kernels $(VENV)/spark-kernels

# The packages as they are installed, for tools that do not know of the mapping in pyproject.toml.
.links/ready: Makefile $(wildcard pastforward/*)
	@rm -rf .links
	@mkdir -p .links/pastforward
	@ln -s $(abspath $(wildcard pastforward/*) $(PACKAGES) papers benchmarks) .links/pastforward/
	@touch $@

# Packages, jars and kernels do not wait for each other.
.PHONY: for-run for-all for-tests
for-run: $(VENV)/kernels .jars/kafka/classes.jsa
for-all: for-run $(VENV)/spark-kernels .jars/spark/ready
for-tests: $(VENV)/all-kernels .jars/kafka/classes.jsa .jars/spark/ready
TOGETHER := $(MAKE) --no-print-directory --jobs 3

setup: ## virtual environment, jars, compiled kernels
	@$(TOGETHER) for-all

run: ## a broker, a worker, and a scene to watch
	@$(TOGETHER) for-run
	$(BIN)/pastforward demo

test: ## linters and all tests, against a real broker
	@$(TOGETHER) for-tests
	@$(MAKE) --no-print-directory lint
	$(BIN)/pytest --numprocesses 4 --dist loadgroup

lint: $(VENV)/ready .links/ready ## formatter, linter, types, direction of dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory types layers

types: $(VENV)/ready .links/ready ## type checker alone
	MYPYPATH=.links $(BIN)/mypy

layers: $(VENV)/ready .links/ready ## direction of dependencies alone
	cd .links && $(abspath $(BIN))/lint-imports --config ../pyproject.toml

bench: ## every figure that the documents state
	@$(TOGETHER) for-tests
	$(BIN)/pastforward bench all

soak: ## the long forms of the kill tests
	@$(TOGETHER) for-tests
	HYPOTHESIS_SOAK=1 $(BIN)/pytest -m soak --timeout 7200

clean: ## everything that set-up and runs have made
	rm -rf $(VENV) .links .jars .pastforward build dist *.egg-info */build */*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
