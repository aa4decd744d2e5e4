# What a user types. Everything happens in .venv; a second run installs and builds only what has changed.
PYTHON =
FOR = 30
SEED = $(shell date +%Y%m%d)
BIN = .venv/bin
# One process more than two processors: many tests wait, for a server or for a simulator that another process builds. Each has
# one thread: threads of OpenBLAS on a busy processor wait for each other by spinning.
SPREAD = --numprocesses 3 --dist loadfile --no-loadscope-reorder
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest $(SPREAD)
DAILY = -m "not slow and not soak and not yosys and not aarch64 and not host_cost"
TESTS =
INSTALLED = .venv/installed
READY = .venv/ready
PREDICTOR = compiler/predict compiler/cost compiler/graph compiler/lower spec spec/program # whose sources its machine code is made of
SITE_READY = .venv/installed-docs
export ORT_DISABLE_TELEMETRY ?= 1 # onnxruntime would report to its maker; `import cnna` says so too, but some programs import it first
unexport PYTHONDONTWRITEBYTECODE # with it, each of the many processes that tests start would compile every module anew
unexport MAKEFLAGS # what a recipe starts, g++ by Verilator's makefile above all, has no part in the jobs of this make

.PHONY: help demo board-demo test coverage soak fresh test-all aarch64 pynq3 conformance lint docs pages bench host-cost compile-cost baseline resources release clean pruning thousand split-link estimators
.PHONY: baseline-resnet50 baseline-squeezenet baseline-lint baseline-yosys baseline-host baseline-compile

demo: $(READY)  ## quantise, compile and run the digits network on the simulated accelerator
	$(BIN)/python examples/demo.py

board-demo: $(READY)  ## the same on a virtual ZCU102, through the stock pynq package
	$(BIN)/python examples/board_demo.py

test: $(READY)  ## the tests, RTL simulation included
	$(PYTEST) $(DAILY) --durations=10

coverage: $(READY)  ## the lines that these tests reach, room by room, into build/coverage; TESTS=tests/spec chooses some
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tools/covered.py $(SPREAD) $(DAILY) $(TESTS)

soak: $(READY)  ## servers under load and faults, 30 s each; FOR=300 for five minutes each
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 -m soak --soak $(FOR) tests/serve/soak

fresh: $(READY)  ## compiles 300 random networks, every day others; SEED=20260131 repeats those of a day
	$(PYTEST) --dist load --seed $(SEED) tests/test_agreement.py -k compiler_takes_fresh

test-all: $(READY) $(SITE_READY)  ## every test, slow ones too, and the whole of onnx's suites
	$(PYTEST) -m "" --durations=20
	$(BIN)/python tools/conformance/conformance.py

aarch64: $(READY)  ## the native host library as a board's code, under qemu (apt install g++-aarch64-linux-gnu qemu-user)
	$(BIN)/python -m pytest -q -m aarch64 tests/host tests/tools tests/test_cpp_host.py tests/test_packaging.py

pynq3: $(READY)  ## the tests below pynq's classes for a board of its own, with pynq 3.0.1, as many boards' images have it
	$(BIN)/python -m pip install -q --upgrade --no-deps --target build/pynq3 pynq==3.0.1 'pycparser<3'
	rm -rf build/pynq3/tests # pynq's own, which would stand before ours
	PYTHONPATH=build/pynq3 $(BIN)/python -c 'import pynq; assert pynq.__version__ == "3.0.1"'
	PYTHONPATH=$(CURDIR)/build/pynq3 $(BIN)/python -m pytest -q tests/host/local_pynq

conformance: $(READY)  ## runs onnx's own suites into docs/operators.md (a few minutes)
	$(BIN)/python tools/conformance/conformance.py

lint: $(READY)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p cnna
	$(BIN)/mypy --python-version 3.10 -p cnna.host -p cnna.serve
	$(BIN)/mypy tools examples
	$(BIN)/mypy tests

docs: pages $(SITE_READY)  ## builds the documentation site into build/site (two minutes)
	PYTHONPATH=tools $(BIN)/python -m docsite.build build/site

pages: $(READY)  ## writes what in docs/ is generated, and the C header of the registers
	$(BIN)/python -m cnna.hw.verilog.describe docs/registers.md
	$(BIN)/python tools/registers.py
	$(BIN)/python tools/pictures/picture.py
	$(BIN)/python tools/pictures/rooms.py
	$(BIN)/python tools/pictures/lives.py
	$(BIN)/python tools/protocol.py
	$(BIN)/python -m cnna.sim.board.own_page docs

bench: $(READY)  ## measures networks on the RTL into docs/performance.md; ROWS='resnet50/b1 vgg19/*' chooses
	PYTHONPATH=tools $(BIN)/python tools/bench/bench.py --rows $(ROWS)

host-cost: $(READY)  ## counts what the host does for a picture, under qemu-aarch64, into docs/; ROWS='resnet50/b1', CHECK='resnet50 yolov8n' compares
	PYTHONPATH=tools:tools/bench $(BIN)/python tools/host_cost/host_cost.py $(if $(CHECK),--check $(CHECK)) $(if $(ROWS),--rows $(ROWS)) $(if $(HOST),--path $(HOST))

pruning: $(READY)  ## prunes networks into docs/pruning.md; MODELS=DIR has trained ones, ONLY=NAME chooses, RTL=1 counts clocks on the RTL
	PYTHONPATH=tools $(BIN)/python tools/pruned_networks.py $(if $(MODELS),--models $(MODELS)) $(if $(ONLY),--only $(ONLY)) $(if $(PART),--part $(PART)) $(if $(RTL),--rtl)

thousand: $(READY)  ## simulates a thousand boards into docs/thousand-boards.md; REQUESTS=400000 in each run
	PYTHONPATH=tools/simulation $(BIN)/python tools/simulation/thousand_boards.py $(if $(REQUESTS),--requests $(REQUESTS))

split-link: $(READY)  ## measures all cuts of networks between two engines with a shaped link, into docs/cluster.md (root, iproute2); MODELS=DIR has trained ones
	$(BIN)/python tools/serving/split_link.py --page $(if $(MODELS),--models $(MODELS))

estimators: $(READY)  ## Vela and SCALE-Sim beside ours and the RTL, into docs/benchmarks.md (some minutes; it resumes)
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tools:tools/bench $(BIN)/python tools/estimators/estimators.py

compile-cost: $(READY)  ## counts the calls of compiling networks into docs/compile_cost.json; ROWS='resnet50/b1', CHECK='squeezenet/b1' compares
	PYTHONPATH=tools $(BIN)/python tools/bench/compile_cost.py $(if $(CHECK),--check $(CHECK)) $(if $(ROWS),--rows $(ROWS))

baseline: baseline-resnet50 baseline-squeezenet baseline-lint baseline-yosys baseline-host baseline-compile  ## tests with Yosys; lints zcu102; runs ResNet-50 on it and SqueezeNet at zcu102x2 whole: every tensor and the clocks

baseline-resnet50: $(READY)
	PYTHONPATH=tools $(BIN)/python tools/bench/bench.py --check resnet50/b1

baseline-squeezenet: $(READY)
	PYTHONPATH=tools $(BIN)/python tools/bench/bench.py --check squeezenet/b1/x2

baseline-lint: $(READY)
	$(BIN)/python -m pytest -q tests/hw/verilog/test_writer.py::test_zcu102_fits_and_is_lint_clean

baseline-yosys: $(READY)
	$(BIN)/python -m pytest -q -m yosys tests/tools tests/hw/verilog

baseline-host: $(READY) | baseline-resnet50 # which quantises the network
	$(BIN)/python -m pytest -q -m host_cost tests/tools/test_host_cost_counts.py
	PYTHONPATH=tools:tools/bench $(BIN)/python tools/host_cost/host_cost.py --check resnet50 yolov8n

baseline-compile: $(READY) | baseline-resnet50
	PYTHONPATH=tools $(BIN)/python tools/bench/compile_cost.py --check resnet50/b1 squeezenet/b1

resources: $(READY)  ## synthesises the accelerator with Yosys into docs/resources.md (five minutes on an idle machine; it resumes); CONFIG=zcu102x2, MINUTES=10
	nice $(BIN)/python tools/resources.py $(if $(CONFIG),--config $(CONFIG)) $(if $(MINUTES),--minutes $(MINUTES))

release: $(READY)  ## a dry run: archives, installed in clean environments of each Python, which run the demo (half an hour); ONLY='3.13'
	nice $(BIN)/python tools/release.py $(if $(ONLY),--only $(ONLY))

clean:  ## removes all that make has made here; simulators stay in the user's cache folder
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

help:  ## lists these
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

$(READY): $(INSTALLED) $(wildcard $(PREDICTOR:%=%/*.py))
	@$(BIN)/python -m cnna.compiler.predict || true # without a C compiler it stays Python
	@touch $@

$(INSTALLED): pyproject.toml constraints.txt setup.py tools/setup.sh $(wildcard host/native/*.cpp host/native/*.h host/native/build.py)
	@tools/setup.sh $(PYTHON)

$(SITE_READY): $(READY)
	@echo "installing Sphinx and what else the site needs into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@
