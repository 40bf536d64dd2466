# Every target sets up .venv by itself; `make demo` and `make test` need nothing but Python 3.11 to 3.13.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PLAIN  := $(VENV)/.plain
READY  := $(VENV)/.ready
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help setup demo test test-slow test-experts test-gpu test-lowest test-pythons smoke mutants fuzz chaos endurance lint format \
        standards lock package sbom bench experiments pictures docs clean

help:            ## say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv with pliant and its development tools

# Pliant alone, which is all that the demo needs: the development tools take longer to install than it does to run.
# Packages are those of requirements/, and each file must have its hash. Without one for yours: make LOCKED=no.
LOCKED ?= yes
$(PLAIN): pyproject.toml requirements/plain.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "pliant needs Python 3.11 to 3.13; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
ifeq ($(LOCKED),yes)
	$(INSTALL) --require-hashes --requirement requirements/plain.txt
	$(INSTALL) --no-deps --editable .
else
	$(INSTALL) --editable .
endif
	@touch $@

$(READY): $(PLAIN) requirements/dev.txt
ifeq ($(LOCKED),yes)
	$(INSTALL) --require-hashes --requirement requirements/dev.txt
else
	$(INSTALL) --editable '.[dev,docs,standards]'
endif
	@touch $@

demo: $(PLAIN)   ## train a model of 200 synthetic faces and show it in demo/index.html
	$(BIN)/pliant demo --output demo

test: $(READY)   ## run the tests
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadfile

test-slow: $(READY)  ## run the proofs that take minutes
	$(BIN)/python -m pytest -m slow || test $$? -eq 5  # 5: there are none

# One version, so that everybody tests the same.
test-experts: $(READY)  ## run the tests that need PyTorch, which is installed into .venv
	$(INSTALL) torch==2.13.0
	$(BIN)/python -m pytest tests/test_network_training.py

test-gpu: $(READY)  ## run the tests of fits on a device, with PyTorch: on a GPU, or on the CPU if there is none
	$(BIN)/python -c 'import torch' 2>/dev/null || $(INSTALL) torch==2.13.0
	$(BIN)/python -m pytest tests/test_torch_kernel.py tests/test_torch_loops.py tests/test_device_views.py tests/test_device_experts.py \
	  tests/test_devices.py

test-lowest: $(READY)  ## run the tests with the lowest versions that pyproject.toml allows, in .venv-lowest: as long as make test
	tools/pythons.sh --none --lowest -m 'not slow' -n 2 --dist loadfile $(TESTS)

test-pythons: $(READY)  ## run the tests with every Python from 3.11 to 3.13 that is here, in .venv-3.11 and so on
	tools/pythons.sh -m 'not slow' -n 2 --dist loadfile $(TESTS)

# Files of all kinds, and a model that is trained, written, read and fitted: what other packages break first. Learning confidence
# would take longer than all of these.
SMOKE := tests/test_store.py tests/test_images.py tests/test_formats.py tests/test_formats_binary.py tests/test_limits.py
smoke: $(READY)  ## run some of the tests with the other Pythons and with the lowest versions
	tools/pythons.sh --others --lowest -m 'not slow' -k 'not confidence' -n 2 --dist loadfile $(SMOKE)

lock: $(READY)   ## choose the newest versions that pyproject.toml allows, and write requirements/ with their hashes
	tools/lock.sh

package: $(READY)  ## build wheel and source archive into dist/, and try the wheel in an empty environment
	$(BIN)/python tools/package.py

sbom: $(READY)   ## list what pliant needs to run, with versions and licences, in dist/pliant.cdx.json (CycloneDX)
	rm -rf .venv-plain && $(BIN)/python -m venv .venv-plain
	.venv-plain/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/plain.txt
	.venv-plain/bin/python -m pip uninstall --quiet --yes pip setuptools
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible --validate \
	  --output-file dist/pliant.cdx.json .venv-plain
	rm -rf .venv-plain

# Hours for all of them; MUTANTS="--most 300" takes a sample, and what was done is not done again.
mutants: $(READY)  ## change the code one operator at a time, and see whether the tests notice
	$(BIN)/python tools/mutants.py $(MUTANTS)

# About 10 million inputs in all: hours. RUNS=1000 takes minutes.
RUNS ?= 250000
fuzz: $(READY)  ## attack every reader with RUNS inputs, guided by coverage, and the models with bounds checks
	$(INSTALL) --editable '.[fuzz]'
	$(BIN)/python tests/fuzz/long.py --runs $(RUNS)
	$(BIN)/python tests/fuzz/long.py --bounds
	PLIANT_FUZZ=200 $(BIN)/python -m pytest tests/fuzz

lint: $(READY)   ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## rewrite the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

standards: $(READY)  ## check pliant against JOSS, pyOpenSci and the Scientific Python guides
	$(BIN)/python tools/standards.py

bench: $(READY)  ## run the benchmarks into docs/results/benchmarks.md (real data from ../shared/data if it is there)
	$(BIN)/python benchmarks/report.py

chaos: $(READY)  ## provoke faults against every command (as root, with setpriv and libfaketime, all of them): a quarter of an hour
	$(BIN)/python benchmarks/chaos.py
	$(BIN)/python benchmarks/cluster_faults.py

endurance: $(READY)  ## 100,000 fits and 500 sessions in a browser, drawn into docs/pictures
	$(BIN)/python benchmarks/endurance.py fits
	$(BIN)/python benchmarks/endurance.py draw endurance_fits.csv --picture docs/pictures/endurance_fits.svg
	$(BIN)/python benchmarks/endurance.py sessions
	$(BIN)/python benchmarks/endurance.py draw endurance_sessions.csv --what sessions \
	  --picture docs/pictures/endurance_sessions.svg

experiments: $(READY)  ## repeat docs/results on the images in ../shared/data, which takes hours; goes on if stopped
	@test -d ../shared/data || { echo "the images are not here: ../shared/data"; exit 1; }
	$(BIN)/pliant experiment all --settings docs/results/experiments.toml --reference ../shared/reference -o experiments
	$(BIN)/pliant experiment algorithms --settings docs/results/tuned.toml -o experiments/tuned
	$(BIN)/pliant experiment algorithms --settings docs/results/wiberg.toml -o experiments/wiberg
	$(BIN)/pliant experiment composition --settings docs/results/splines.toml -o experiments/splines

docs: $(READY)   ## build the site into site/, run its gallery and check its links
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --jobs 2 -d site/.doctrees docs site
	$(BIN)/python docs/check_links.py site

pictures: $(READY)  ## redraw the pictures of the docs, and rewrite the pages that programs make
	$(BIN)/python docs/draw_pictures.py
	$(BIN)/python docs/draw_map.py
	$(BIN)/python docs/draw_framework.py
	$(BIN)/python docs/list_commands.py
	$(BIN)/python docs/list_equations.py
	$(BIN)/python docs/list_licences.py

clean:           ## remove what the other targets made
	rm -rf $(VENV) .venv-lowest .venv-plain .venv-3.1? demo experiments site .mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
