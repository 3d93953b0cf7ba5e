# Everything a person or CI does with this checkout. `make help` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-from
DEMO_STAMP := $(VENV)/.made-for-demo
NATIVE := $(wildcard native/*.toml native/Cargo.lock native/*.pyi native/src/*.rs native/src/*/*.rs native/src/*/*/*.rs)
SETUP_FROM := pyproject.toml hatch_build.py shims/paddlerec/pyproject.toml $(wildcard shims/paddle-fluid/*) constraints.txt $(NATIVE)
PEERS := .venv-peers
WHEELS := .venv-wheels
SITE := .venv-site
TEST_FLAGS ?=
# Two more than the cores of the smallest machine: many tests wait, for leases, time limits and lost nodes.
TEST_WORKERS ?= 4
# Its tests hardly wait, and each worker takes eight seconds of a core to find them all.
QUICK_WORKERS ?= 3
COUNT ?=
MINUTES ?= 60
CAMPAIGN_FLAGS ?=
WHEEL_FLAGS ?=

# Each says what is missing, and ends make.
define NEEDS_RUST
command -v cargo >/dev/null || { echo "umiak's native core needs Rust 1.89 or newer: no cargo on PATH. Install it from https://rustup.rs (Debian, Ubuntu: apt-get install rustup && rustup default stable), and open a new shell" >&2; exit 1; }
endef
define NEEDS_PYTHON
command -v $(PYTHON) >/dev/null || { echo "umiak needs Python 3.10 or newer: no $(PYTHON) on PATH; name another one: make PYTHON=/path/to/python3.11 setup" >&2; exit 1; }; \
$(PYTHON) -c 'import sys; sys.exit("umiak needs Python 3.10 or newer, and %s is %s; name another one: make PYTHON=/path/to/python3.11 setup" % (sys.executable, sys.version.split()[0]) if sys.version_info < (3, 10) else 0)'
endef
# Debian without python3-venv leaves an environment without pip.
MAKE_VENV = test -x $(BIN)/pip || { echo "1/4 virtual environment in $(VENV)" >&2; $(PYTHON) -m venv $(VENV); }
# A real Ray, 300 MB.
MAKE_RAY = test -x .venv-ray/bin/ray || { $(BIN)/uv venv --quiet --python $(BIN)/python .venv-ray && $(BIN)/uv pip install --quiet --python .venv-ray/bin/python 'ray[default]==2.60.0'; }
# Two at a time, as many as the smallest machine has cores; what each prints stays together.
SIDE_BY_SIDE = $(MAKE) --no-print-directory --jobs 2 --output-sync=target
CHECKS = check-types check-rust check-imports check-docs check-known-weaknesses
# uv leaves this to the first import, which keeps nothing where PYTHONDONTWRITEBYTECODE is set: then every process of every test
# would compile what it imports again, 2 seconds for the SDK of a cloud. Some packages hold files for other Pythons: errors are normal.
COMPILE_PYTHON = $(BIN)/python -m compileall -qq -j 2 $(VENV)/lib .venv-ray/lib .venv-moto/lib .venv-clouds/lib src testbed tests || true
OPEN_CLUSTER = $(BIN)/python -m testbed.prepare && $(BIN)/python -m testbed $(@:cluster-%=%) $(COUNT)

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick test-rust test-torch cluster-ssh cluster-slurm cluster-mpi cluster-ray cluster-kubernetes matrix campaign campaign-ps wheels check $(CHECKS) audit format bench bench-ps bench-peers bench-fabric docs site clean

help: ## Show what there is to do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with everything that users and tests need

# Two sizes of the same environment. What the demo needs is in the whole one too, so that is enough where it is there.
$(STAMP): $(SETUP_FROM)
	@$(NEEDS_RUST)
	@$(NEEDS_PYTHON)
	@$(MAKE_VENV)
	@$(BIN)/python -m tools.setup all
	@touch $(STAMP) $(DEMO_STAMP)

$(DEMO_STAMP): $(SETUP_FROM)
	@$(NEEDS_RUST)
	@$(NEEDS_PYTHON)
	@$(MAKE_VENV)
	@$(BIN)/python -m tools.setup demo
	@touch $(DEMO_STAMP)

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO_STAMP)) ## Train a click-through model with parameter servers here, kill some of them, and ask the model
	@$(BIN)/python examples/demo.py

test: setup ## Everything: checks, unit tests, laws, scripts, real clusters
	@$(SIDE_BY_SIDE) test-rust $(CHECKS)
	$(BIN)/python -m testbed.prepare --packages
	@$(MAKE_RAY)
	@test -d "$$(echo .venv-moto/lib/python*/site-packages/s3fs)" || { $(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-moto && $(BIN)/uv pip install --quiet --python .venv-moto/bin/python 'moto[s3,server]==5.2.5' 's3fs==2026.9.0'; }  # a real S3 server, and fsspec's client for it, 200 MB
	@test -e .venv-clouds/.made || { $(BIN)/uv venv --quiet --python $(BIN)/python .venv-clouds && $(BIN)/uv pip install --quiet --python .venv-clouds/bin/python --constraint constraints.txt huaweicloudsdkmodelarts bce-python-sdk alibabacloud-pai-dlc20201203 && touch .venv-clouds/.made; }  # the SDKs of clouds, 80 MB
	@test -d "$$(echo .venv-triton/lib/python*/site-packages/tritonclient)" || { $(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-triton && $(BIN)/uv pip install --quiet --python .venv-triton/bin/python 'tritonclient[http]==2.73.0'; }  # somebody else's client of the Open Inference Protocol, 120 MB
	@test -d "$$(echo .venv-onnx/lib/python*/site-packages/onnxruntime)" || { $(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-onnx && $(BIN)/uv pip install --quiet --python .venv-onnx/bin/python 'paddle2onnx==2.1.0' 'onnxruntime==1.31.1'; }  # models as ONNX: what converts them, and what runs them, 210 MB
	@$(COMPILE_PYTHON)
	$(BIN)/python -m testbed.run_tests -n $(TEST_WORKERS) --dist worksteal --tb=short $(TEST_FLAGS)

quick: setup ## Unit tests, laws and stories, with fewer generated examples: about three minutes on two cores
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n $(QUICK_WORKERS) --dist worksteal --tb=short -q tests/unit tests/laws tests/scripts $(TEST_FLAGS)

test-torch: setup ## PyTorch's layers for parameter servers (1.2 GB in the user's cache, made once)
	$(BIN)/python -m testbed.pytorch -m pytest -n 0 tests/unit/ps/test_ps_torch*.py $(TEST_FLAGS)

cluster-ssh: setup ## A shell beside real machines with sshd on loopback, COUNT=4
	@$(OPEN_CLUSTER)

cluster-slurm: setup ## A shell beside a real Slurm, COUNT=2
	@$(OPEN_CLUSTER)

cluster-mpi: setup ## A shell beside hosts for mpirun of Open MPI and MPICH, COUNT=2
	@$(OPEN_CLUSTER)

cluster-ray: setup ## A shell beside a real Ray cluster, COUNT=3 (makes .venv-ray, 300 MB)
	@$(MAKE_RAY)
	@$(OPEN_CLUSTER)

cluster-kubernetes: setup ## A shell beside a real Kubernetes cluster, COUNT=2 (builds Kubernetes the first time: Go, 13 minutes)
	@$(OPEN_CLUSTER)

matrix: setup ## All cells of which `make test` runs a choice: 96 ways to start a training in pods, 15 models in 6 strategies, outages of every length, readers that are killed
	$(BIN)/python -m testbed.prepare
	UMIAK_MATRIX=all $(BIN)/python -m pytest -n 0 -q tests/integration/test_launcher_matrix.py tests/integration/test_outages.py tests/integration/test_zoo_modes.py tests/integration/test_dygraph_readers.py

campaign: setup ## Play random outages, losses and joins against the launcher's decisions, for MINUTES=60
	$(BIN)/python -m tests.support.launcher_campaign --minutes $(MINUTES)

campaign-ps: setup ## Kill, stop, freeze and cut real servers, trainers and `umiak train`, and fill their disks, for MINUTES=60
	$(BIN)/python -m tests.support.ps_campaign --minutes $(MINUTES) $(CAMPAIGN_FLAGS)

wheels: ## Build wheels for machines without Rust into dist/ (makes .venv-wheels, 400 MB)
	@$(NEEDS_RUST)
	@$(NEEDS_PYTHON)
	@test -x $(WHEELS)/bin/pip || $(PYTHON) -m venv $(WHEELS)
	@$(WHEELS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt maturin ziglang hatchling
	@$(WHEELS)/bin/python -m tools.wheels $(WHEEL_FLAGS)

check: setup ## Format, lint, types, import contracts, clippy, fresh docs, known weaknesses of dependencies (under a minute)
	@$(SIDE_BY_SIDE) $(CHECKS)

check-types: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	MYPYPATH=native $(BIN)/stubtest --mypy-config-file pyproject.toml --allowlist native/stubtest-allowed.txt umiak_native

check-rust: setup
	cargo fmt --check --manifest-path native/Cargo.toml
	cargo clippy --quiet --all-targets --manifest-path native/Cargo.toml -- -D warnings

check-imports: setup
	$(BIN)/lint-imports

check-docs: setup
	$(BIN)/python docs/generate.py --check
	$(BIN)/python -m tools.architecture --check
	$(BIN)/python -m tools.pictures --check

check-known-weaknesses: setup
	$(BIN)/python -m tools.audit

test-rust: setup
	cargo test --quiet --profile tests --manifest-path native/Cargo.toml --no-default-features --target-dir native/target/tests  # else the module for Python is compiled again afterwards

audit: setup ## Ask whether a dependency has a known weakness (a part of `make check`; needs a network and cargo-audit)
	$(BIN)/python -m tools.audit

format: setup ## Let the formatter and the linter fix what they can
	cargo fmt --manifest-path native/Cargo.toml
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## Measure the launcher beside its peers (torchrun after `make bench-peers`), the reader, the parameter server, training from a config, programs of fluid, the dashboard beside TensorBoard and MLflow
	$(BIN)/python -m benchmarks.launch
	$(BIN)/python -m benchmarks.reader
	$(BIN)/python -m benchmarks.ps
	$(BIN)/python -m benchmarks.train
	$(BIN)/python -m benchmarks.fluid
	$(BIN)/python -m benchmarks.submit
	$(BIN)/python -m benchmarks.operator
	$(BIN)/python -m benchmarks.dashboard

bench-ps: setup ## Measure the parameter server beside Paddle 2.6.2's own (makes .venv-paddle262, 500 MB)
	$(BIN)/python -m benchmarks.ps --peer paddle

bench-fabric: setup ## Make .venv-fabric for the comparison of jobs over ssh (25 MB)
	@test -x .venv-fabric/bin/fab || { $(BIN)/uv venv --quiet --python $(BIN)/python .venv-fabric && $(BIN)/uv pip install --quiet --python .venv-fabric/bin/python 'fabric==3.2.3'; }

bench-peers: setup ## Make .venv-peers with the newest torch for the comparison (5 GB)
	$(BIN)/python -m benchmarks.peers

docs: setup ## Write what is made from the code: pages of docs/reference, the schema of configs, pictures
	$(BIN)/python docs/generate.py
	$(BIN)/python -m tools.architecture
	$(BIN)/python -m tools.pictures

site: setup ## Make a site of the documentation that can be searched, in build/site (makes .venv-site, 150 MB)
	@test -x $(SITE)/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python $(SITE)
	@$(BIN)/uv pip install --quiet --python $(SITE)/bin/python --constraint constraints.txt --group site
	$(SITE)/bin/python -m tools.site

clean: ## Remove what was made here, except the virtual environments
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build log run demo
