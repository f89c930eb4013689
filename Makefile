# Everything a developer or CI runs. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.8
SOURCES := fleetgauge tests examples benchmarks tools hatch_build.py
RESULTS := .results
# Without bytecode every process that a test starts would compile all its libraries again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup java lint check test test-real test-python soak soak-faults demo demo-broker demo-gateway bridge docs manifests format lock dist clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.installed java  ## make .venv with everything that the project needs

# Installed from hashes, so that every machine gets the same; done again only when the lock or the project changes.
$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Fleetgauge needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V). Name another with make PYTHON=..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --require-hashes -r requirements.lock
	FLEETGAUGE_COMPILE=0 VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps -e .
	@# A registry that sends no caching headers has uv build pyspark anew and keep every build: 1.7 GB each.
	$(BIN)/uv cache prune --quiet
	touch $@

java:
	@sh .ci/java.sh

lint: setup  ## formatting, lint, types, import contracts
	$(BIN)/ruff format --check --quiet $(SOURCES)
	$(BIN)/ruff check --quiet $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

check: lint  ## lint and the quickest tests: a minute
	$(BIN)/python tests/run.py check
	@$(BIN)/python tools/size.py

test: lint docs  ## lint, documentation, every quick test, and one trip through each form: minutes
	$(BIN)/python tests/run.py test

test-real: setup  ## everything else with real parts: brokers, clients, Spark, collectors, a browser
	$(BIN)/python tests/run.py test-real

test-python: setup  ## the tests that need no Java on another interpreter: make test-python PYTHON=python3.13
	$(BIN)/python tests/other_python.py $(PYTHON)

soak: setup  ## the long runs
	$(BIN)/python -m pytest -q tests -m soak --timeout 7200

soak-faults: setup  ## real faults with default settings, two hours; some: FAULTS=slow-broker; pairs that are independent, an hour: FAULTS=pairs
	FLEETGAUGE_PATIENCE=6 PYTHONPATH=tests $(BIN)/python tests/soak_faults.py $(FAULTS)

demo: setup  ## real clients through everything, tables by PySpark where Java is, and the ranked list
	$(BIN)/fleetgauge demo

demo-broker: setup  ## the same through real Kafka brokers with the plugin (needs Maven)
	$(BIN)/python tests/demo_broker.py

demo-gateway: setup  ## and through a gateway before a Kafka 2.8 broker, which has no KIP-714 (needs Maven)
	$(BIN)/python tests/demo_gateway.py

bridge:  ## builds and tests the broker plugin and the filter for Kroxylicious: bridge/target/, bridge/kroxylicious/target/ (needs Maven)
	@echo "Maven builds and tests two jars: some minutes without output"
	mvn -q -B -f bridge/pom.xml package
	mvn -q -B -f bridge/kroxylicious/pom.xml package

docs: setup  ## dist/site: the documentation as a site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=tests:tools $(BIN)/mkdocs build --strict

manifests: setup  ## dist/kubernetes: the Helm chart, and what it renders with the values of docs/operate/kubernetes.md (needs Go)
	PYTHONPATH=tests $(BIN)/python tests/support/helm.py dist/kubernetes

format: setup  ## formats and fixes what can be fixed by itself
	$(BIN)/ruff format --quiet $(SOURCES)
	$(BIN)/ruff check --fix --quiet $(SOURCES)

# Runtime locks take their versions from the development lock. A set of extras is what an image or a host installs.
COMPILE = VIRTUAL_ENV=$(VENV) $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
lock: $(VENV)/.installed  ## writes requirements.lock (development) and locks/ (runtime, release) from pyproject.toml
	$(COMPILE) pyproject.toml --all-extras --group dev -o requirements.lock
	$(COMPILE) pyproject.toml -c requirements.lock -o locks/base.lock
	$(COMPILE) pyproject.toml -c requirements.lock --extra console --extra kafka --extra oauth --extra otel --extra tables -o locks/image.lock
	$(COMPILE) pyproject.toml -c requirements.lock --extra console --extra kafka --extra oauth --extra otel --extra spark -o locks/image-fleet.lock
	$(COMPILE) --group release -c requirements.lock -o locks/release.lock

dist: setup  ## every asset of a release, with SHA256SUMS: dist/ (needs Maven)
	sh .ci/dist.sh

clean:  ## removes what set-up and tests made
	rm -rf $(VENV) build dist $(RESULTS) bridge/target bridge/kroxylicious/target .mypy_cache .ruff_cache .pytest_cache .hypothesis fleetgauge-data
