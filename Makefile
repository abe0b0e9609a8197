# Every target makes the environment it needs from constraints.txt, once, and again when that changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH_VENV := .venv-torch
TORCH_BIN := $(TORCH_VENV)/bin
TORCH_READY := $(TORCH_VENV)/.ready
TORCH_MODULES = $(wildcard src/evenhand/*/torch_*.py src/evenhand/*/triton_*.py)

.PHONY: demo test test-slow test-torch test-spark test-dask test-onnx test-mlflow lint bench fuzz mutants reproduce clean

demo: $(READY)
	$(BIN)/python -m evenhand demo

test: $(READY)
	$(BIN)/python -m pytest -m "not slow" -n 2 -q $(ARGS)

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

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# make bench runs them all; make bench ONLY=kernel one of them
bench: $(READY)
	$(BIN)/python -m benchmarks $(ONLY)

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
	rm -rf $(VENV) $(TORCH_VENV) .venv-spark .venv-dask .venv-onnx .venv-mlflow evenhand-demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks demos fuzz reproduction -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): constraints.txt pyproject.toml
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

ALSO_onnx = pandas pyarrow lightgbm xgboost-cpu
EXTRAS_mlflow := ,spark
ALSO_mlflow := shap
.venv-%/.ready: constraints-%.txt pyproject.toml
	@echo "Preparing .venv-$*: a minute or two, once."
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install -qq --disable-pip-version-check -c constraints-$*.txt -e ".[$*$(EXTRAS_$*)]" pytest hypothesis $(ALSO_$*)
	@touch $@
