# make demo   set up, learn the logs in seeds/, show what works, and an agent that learns while it acts
# make test   set up, run the tests: all on the embedded engine, one case a behaviour on Neo4j
# make test-all  every case on both engines, and what is slow
# make extras  test what needs gigabytes, in a virtual environment of its own
# make attack  the attacks of the tests, for an hour rather than seconds
# make lint | bench | neo4j | docs

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
ATTACKS := tests/faults tests/cli/test_hostile_text.py tests/contract/test_isolation.py \
	tests/seeding/test_any_content.py tests/unit/test_allowed.py tests/unit/test_fencing.py \
	tests/unit/test_printable.py tests/view/test_page.py
STAMP := $(VENV)/.stamp
EXTRAS := .venv-extras

# What tests start is compiled once, not by each process anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all attack extras lint bench neo4j docs clean

demo: $(STAMP)-run
	@$(BIN)/graphmem demo

# Three processes, which share a Neo4j where none is named: with two, a third of the time of two cores
# went by in waiting. They take the files in the order of tests/conftest.py: what takes long must not
# come last, when some wait for another.
test: $(STAMP)-test
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-all:
	@GRAPHMEM_TEST_ALL=1 $(MAKE) --no-print-directory test ARGS="$(ARGS)"

attack: $(STAMP)-test
	@GRAPHMEM_ATTACK=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(ATTACKS) $(ARGS)

# The extra sentence-transformers brings torch, some 6 GB, which nothing else needs.
extras: $(EXTRAS)/.stamp
	@GRAPHMEM_REQUIRE_EXTRAS=1 $(EXTRAS)/bin/python -m pytest tests/extras $(ARGS)

lint: $(STAMP)-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)-test
	$(BIN)/python -m tests.bench $(ARGS)

neo4j: $(STAMP)-test
	@$(BIN)/python -m tests.neo4j $(ARGS)

docs: $(STAMP)-docs
	$(BIN)/python -m docs.building

clean:
	rm -rf $(VENV) $(EXTRAS) site dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# A virtual environment with graphmem in it; each group of tools is added when it is first needed.
$(STAMP)-run: pyproject.toml
	@echo "setting up $(VENV)"
ifdef UV
	@test -x $(BIN)/python || $(UV) venv -q --python $(PYTHON) $(VENV)
	@$(UV) pip install -q --python $(BIN)/python -e '.[plots]'
else
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "graphmem needs Python 3.11 or newer")'
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/pip install -q --disable-pip-version-check -e '.[plots]'
endif
	@touch $@

$(EXTRAS)/.stamp: pyproject.toml
	@echo "setting up $(EXTRAS), which takes minutes"
ifdef UV
	@test -x $(EXTRAS)/bin/python || $(UV) venv -q --python $(PYTHON) $(EXTRAS)
	@$(UV) pip install -q --python $(EXTRAS)/bin/python -e '.[sentence-transformers]' --group extras
else
	@test -x $(EXTRAS)/bin/pip || $(PYTHON) -m venv $(EXTRAS)
	@$(EXTRAS)/bin/pip install -q --disable-pip-version-check --upgrade "pip>=25.1"
	@$(EXTRAS)/bin/pip install -q --disable-pip-version-check --no-compile \
		-e '.[sentence-transformers]' --group extras
endif
	@touch $@

$(STAMP)-%: $(STAMP)-run
ifdef UV
	@$(UV) pip install -q --python $(BIN)/python --group $*
else
	@$(BIN)/pip install -q --disable-pip-version-check --group $*
endif
	@touch $@
