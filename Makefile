# Every target sets up .venv by itself; `make demo` and `make test` need nothing but Python 3.11 to 3.13.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PLAIN  := $(VENV)/.plain
READY  := $(VENV)/.ready
DOCS   := $(VENV)/.docs

.PHONY: help setup demo test test-slow test-experts test-gpu lint format standards bench experiments pictures docs clean

help:            ## say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv with pliant and its development tools

# Pliant alone, which is all that the demo needs: the development tools take longer to install than it does to run.
$(PLAIN): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "pliant needs Python 3.11 to 3.13; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(READY): $(PLAIN)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

demo: $(PLAIN)   ## train a model of 200 synthetic faces and show it in demo/index.html
	$(BIN)/pliant demo --output demo

test: $(READY)   ## run the tests
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadfile

test-slow: $(READY)  ## run the proofs that take minutes
	$(BIN)/python -m pytest -m slow || test $$? -eq 5  # 5: there are none

# One version, so that everybody tests the same.
test-experts: $(READY)  ## run the tests that need PyTorch, which is installed into .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pytest tests/test_network_training.py

test-gpu: $(READY)  ## run the tests of fits on a device, with PyTorch: on a GPU, or on the CPU if there is none
	$(BIN)/python -c 'import torch' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pytest tests/test_torch_kernel.py tests/test_device_views.py tests/test_devices.py

lint: $(READY)   ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## rewrite the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

standards: $(READY)  ## check pliant against JOSS, pyOpenSci and the Scientific Python guides
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[standards]'
	$(BIN)/python tools/standards.py

bench: $(READY)  ## run the benchmarks into docs/results/benchmarks.md (real data from ../shared/data if it is there)
	$(BIN)/python benchmarks/report.py

experiments: $(READY)  ## repeat docs/results on the images in ../shared/data, which takes hours; goes on if stopped
	@test -d ../shared/data || { echo "the images are not here: ../shared/data"; exit 1; }
	$(BIN)/pliant experiment all --settings docs/results/experiments.toml --reference ../shared/reference -o experiments
	$(BIN)/pliant experiment algorithms --settings docs/results/tuned.toml -o experiments/tuned
	$(BIN)/pliant experiment algorithms --settings docs/results/wiberg.toml -o experiments/wiberg
	$(BIN)/pliant experiment composition --settings docs/results/splines.toml -o experiments/splines

docs: $(DOCS)    ## build the site into site/, run its gallery and check its links
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --jobs 2 -d site/.doctrees docs site
	$(BIN)/python docs/check_links.py site

pictures: $(READY)  ## redraw the pictures of the docs, and rewrite the pages that programs make
	$(BIN)/python docs/draw_pictures.py
	$(BIN)/python docs/draw_map.py
	$(BIN)/python docs/draw_framework.py
	$(BIN)/python docs/list_commands.py
	$(BIN)/python docs/list_equations.py

clean:           ## remove what the other targets made
	rm -rf $(VENV) demo experiments site .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
