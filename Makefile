# Every target makes what it needs: environments in .venv*, brought up to date when the files they depend on change.
# `make help` lists the targets: the text after ## is the list.

# A top-level cuda/ on sys.path hides NVIDIA's `cuda` package: Python must not put the working directory there.
export PYTHONSAFEPATH := 1
# Tests are compiled with their assertions rewritten, which takes five seconds: once, not in every run.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export DGLBACKEND := pytorch

PYTHON ?= python3
DATA ?=
BENCH ?= sampling
BENCHES ?= sampling gather loader small_batch conversion convert contention build scaling labor_table cooperative tiering projection spmm sar_memory sar_time hybrid_parallel strategies typed import_time launches models training two_builds
ARGS ?=
# Processes of builds, and of tests, of which some wait for ranks and other processes: one more than there are cores. Each
# takes tests that stand together, which share what modules keep, and then what another one has left.
JOBS ?= 2
TEST_JOBS ?= $(shell expr $(JOBS) + 1)
PARALLEL = -n $(TEST_JOBS) --dist worksteal
SECONDS_ ?= 600
MINUTES ?= 60
SEED ?= 0
RUNS ?= 200
SLOWER ?= 1
FILES ?=

# In the project's own builds a warning is an error; in users' builds a new compiler must not stop them.
STRICT := --config-settings cmake.define.HEADRACE_WERROR=ON

NATIVE := CMakeLists.txt $(wildcard ops/native/*/*)
# What samplers, gather, scatter and caches are made of.
SAMPLING := $(filter-out $(patsubst %,ops/native/%/%,bindings disk graphs partition walks),$(wildcard ops/native/*/*.cpp))
PACKAGE := pyproject.toml README.md LICENSE $(NATIVE) $(shell find cuda -type f -not -name "*.pyc") $(shell find pipeline ops -name "*.py" -o -name "*.pyi" -o -name py.typed)
CLANG_FORMATTED := $(shell find ops cuda tests bench -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh')

.PHONY: help stubs demo docs figures test test-all test-quick test-thorough mutants exits leaving soak lint lint-python lint-native lint-types sanitize fuzz tsan wheel-test dgl-test bars bench bench-all bench-report peers \
	peers-graphbolt peers-torch-sparse wheel wheels portable-test sdist sdist-test clean
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Builds share build/, whatever -j says.
.NOTPARALLEL:

help: ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## /\1@/p' Makefile | awk -F@ '{ printf "  %-20s %s\n", $$1, $$2 }' | sed 's/\$$(BENCH)/$(BENCH)/'

# Examples and benchmarks import the files beside them: here the folder of the script belongs on the path.
demo: .venv/.headrace ## train on a generated graph, or on DATA=file.npz; ARGS="--sampler labor" and more
	env -u PYTHONSAFEPATH .venv/bin/python examples/node_classification.py $(if $(DATA),--data "$(DATA)") $(ARGS)

test: .venv/.installed ## run the tests that need no DGL, but for those marked slow or law; ARGS="-k name" goes to pytest
	.venv/bin/pytest $(PARALLEL) --ignore tests/dgl -m "not slow and not law" $(ARGS)

test-all: .venv/.installed ## ... and those too, as every change is checked: statistics of laws, processes, whole trainings (twenty minutes)
	.venv/bin/pytest $(PARALLEL) --ignore tests/dgl $(ARGS)

test-thorough: .venv/.installed ## ... all combinations of parameters, and more random examples (an hour)
	.venv/bin/pytest $(PARALLEL) --ignore tests/dgl --thorough --hypothesis-profile thorough $(ARGS)

test-quick: .venv/.installed ## the behaviour suite alone, but for slow tests and laws, with fewer random examples
	.venv/bin/pytest $(PARALLEL) --of-each 1 --hypothesis-profile few -m "not slow and not law" tests/behaviour $(ARGS)

# Environments around a module that `make test-all` has looked at: what differs there is what crosses over, arguments, results
# and errors, and what is installed; not the numbers that kernels find, nor the hundredth example.
AGAIN := --hypothesis-profile few -m "not slow and not law and not kernel"

docs: .venv/.installed ## build the site in build/docs: open build/docs/index.html; warnings are errors
	.venv/bin/python -m sphinx --quiet --fail-on-warning --keep-going --jobs $(JOBS) -b html docs build/docs

figures: .venv/.installed ## draw the figures of the site anew
	.venv/bin/python docs/site/figures.py

# Copies are built in build/mutants; the second time only what has changed.
mutants: .venv/.installed ## put faults into copies of the code, one by one: each must make its test fail; ARGS="--only text"
	PYTHONPATH=tests .venv/bin/python -m mutants --jobs $(JOBS) $(ARGS)

exits: .venv/.installed ## leave iterations midway in RUNS=200 processes: each must end with the status it should have
	PYTHONPATH=tests .venv/bin/python -m exits --runs $(RUNS) --jobs $(JOBS) $(ARGS)

soak: .venv/.installed ## train for MINUTES=60 through kills and faults: the bits of one process, flat memory
	PYTHONPATH=tests .venv/bin/python -m soak --minutes $(MINUTES)

leaving: .venv/.installed ## let one of two and of four ranks part from the others in every way: these must name it and end
	.venv/bin/python tests/dist/leaving.py --ranks 2 4 $(ARGS)

stubs: .venv/.installed ## write the signatures of verbs that editors and type checkers read
	PYTHONPATH=tests .venv/bin/python -m verb_signatures

lint: lint-python lint-native lint-types ## check style, format and types (compiler warnings are errors in every build)

lint-python: .venv/.installed
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

lint-native: .venv/.installed
	.venv/bin/clang-format --dry-run -Werror $(CLANG_FORMATTED)

# Types are checked on what users install: there the package has its own name, which it has not in this tree. Examples
# and benchmarks are users; tests are not, they pass wrong values on purpose.
lint-types: .venv-wheel/.installed
	.venv/bin/mypy --python-executable .venv-wheel/bin/python --package headrace
	# One by one: a script of the same name stands in both. What torch is was found out above.
	for folder in examples bench; do \
		MYPYPATH=bench:examples .venv/bin/mypy --python-executable .venv-wheel/bin/python --explicit-package-bases \
			$$folder || exit 1; \
	done

# The runtimes come first in the process, and libstdc++ before torch brings it, so that its exceptions are intercepted.
# CPython keeps memory until exit on purpose: no leak check. More memory than there is is refused, not a finding.
SANITIZED = LD_PRELOAD="$$(for library in asan ubsan stdc++; do g++ -print-file-name=lib$$library.so; done | tr '\n' ' ')" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1

# Of CUDA's kernels, those that tests/ops does not run.
CACHES := $(patsubst %,tests/cuda_host/test_%.py,line_cache gpu_cached_feature gpu_cache)

sanitize: .venv-sanitize/.installed ## run the tests of ops/ and of caches on GPUs, and a short fuzz on a build with AddressSanitizer and UBSan
	$(SANITIZED) .venv-sanitize/bin/python -m pytest $(PARALLEL) -o timeout=900 --hypothesis-profile few \
		-m "not uninstrumented and not law" tests/ops tests/fuzz $(CACHES) $(ARGS)
	$(SANITIZED) PYTHONPATH=tests .venv-sanitize/bin/python -m fuzz --seconds 20

fuzz: .venv-sanitize/.installed ## call the native entry points with hostile arguments for SECONDS_=600, or repeat FILES=...
	$(SANITIZED) PYTHONPATH=tests .venv-sanitize/bin/python -m fuzz --seconds $(SECONDS_) --seed $(SEED) $(FILES)

tsan: build/tsan/run ## run samplers, gather, scatter, aggregations and caches in threads on a build with ThreadSanitizer
	TSAN_OPTIONS=halt_on_error=1 build/tsan/run

THREADS := $(wildcard tests/threads/*.cpp)

build/tsan/run: $(THREADS) $(wildcard tests/threads/*.hpp) $(NATIVE)
	rm -rf build/tsan && mkdir -p build/tsan
	printf '%s\n' $(THREADS) $(SAMPLING) | xargs -P $(JOBS) -I{} sh -c '$(CXX) -std=c++17 -O1 -g1 -Wall -Wextra \
		-Wconversion -Werror -fsanitize=thread -ffp-contract=off -Iops/native -c {} -o build/tsan/$$(echo {} | tr / -).o'
	$(CXX) -fsanitize=thread -o $@ build/tsan/*.o -pthread

# What a wheel may lack is files: modules, headers of kernels, the command. What it computes is seen under torch 2.2.1
# by dgl-test, and under the newest by test-all on the same sources.
wheel-test: .venv-wheel/.installed ## try the wheel that dgl-test takes under the newest torch: its modules, its command, the code of README.md
	.venv-wheel/bin/python -m pytest $(PARALLEL) tests/test_package.py tests/test_start.py tests/test_readme.py \
		tests/behaviour/cli/test_output_that_fails.py tests/cuda_host/test_compile.py \
		-k "not (test_code_blocks_run or test_compile) or README.md or shared_headers" $(ARGS)

dgl-test: .venv-dgl/.installed ## run the tests of ops/ and of DGL interoperation on the same wheel under torch 2.2.1
	.venv-dgl/bin/pytest $(PARALLEL) $(AGAIN) tests/ops tests/dgl $(ARGS)

bench: .venv/.installed ## run bench/$(BENCH).py; ARGS="--shape products --json result.json" and more
	env -u PYTHONSAFEPATH .venv/bin/python bench/$(BENCH).py $(ARGS)

bars: .venv/.installed ## hold `import headrace` and `headrace --help` to their bars in bench/bars.py, times SLOWER=1
	env -u PYTHONSAFEPATH .venv/bin/python bench/import_time.py --quick --slower $(SLOWER)

# Results are small and are committed with the report that is made of them. BENCHES="sampling loader" runs and replaces
# those alone.
bench-all: .venv/.installed peers ## run all benchmarks (an hour) into bench/results, and write bench/RESULTS.md
	mkdir -p bench/results
	status=0; for name in $(BENCHES); do \
		echo "bench/$$name.py"; \
		env -u PYTHONSAFEPATH .venv/bin/python bench/$$name.py $(ARGS) --json bench/results/$$name.json \
			--plot bench/results/$$name.png > bench/results/$$name.txt || status=1; \
	done; \
	$(MAKE) bench-report && exit $$status

bench-report: .venv/.installed ## ... write bench/RESULTS.md alone, from the files in bench/results
	env -u PYTHONSAFEPATH .venv/bin/python bench/report.py

peers: peers-graphbolt peers-torch-sparse ## build the environments of the libraries that bench compares with

peers-graphbolt: .venv-dgl/.dependencies ## ... GraphBolt alone (DGL 2.1 on torch 2.2.1)

peers-torch-sparse: .venv-torch-sparse/.installed ## ... torch-sparse alone, compiled from source (about 15 minutes)

wheel: dist/.wheel ## build dist/*.whl

wheels: ## build wheels for all Pythons that are here, and try each in a clean environment; TEST=quick runs all quick tests
	.ci/wheels

sdist: dist/.sdist ## build dist/*.tar.gz

# All that a build reads, byte for byte: .ci/wheels compiles it.
sdist-test: dist/.sdist ## compare the source archive with the tree, and configure a build in it
	rm -rf build/sdist && mkdir -p build/sdist
	tar -xf dist/headrace-*.tar.gz -C build/sdist --strip-components=1
	for path in $$(git ls-files CMakeLists.txt pyproject.toml README.md LICENSE ops cuda pipeline); do \
		cmp $$path build/sdist/$$path || exit 1; \
	done
	.venv/bin/cmake -S build/sdist -B build/sdist/build -G Ninja -DCMAKE_MAKE_PROGRAM="$$PWD/.venv/bin/ninja" -DSKBUILD=2 \
		-DPython_EXECUTABLE="$$PWD/.venv/bin/python" \
		-Dnanobind_DIR="$$(.venv/bin/python -m nanobind --cmake_dir)" > build/sdist/configured

clean: ## remove everything that the other targets made
	rm -rf .venv .venv-* build dist bench/cache .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The environment is made in two steps, so that a first look takes only what it needs. Each says what comes.
.venv/.headrace: constraints.txt pyproject.toml $(NATIVE) $(wildcard pipeline/_*.py) pipeline/py.typed
	@test -e $@ || echo "Making .venv: PyTorch and the tools that compile the C++ core (1 GB on disk). One to three minutes, once."
	test -x .venv/bin/pip || $(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --constraint constraints.txt nanobind scikit-build-core cmake ninja
	@test -e $@ || echo "The tools are there. PyTorch comes next, then the C++ core is compiled."
	.venv/bin/pip install --quiet --constraint constraints.txt --no-build-isolation $(STRICT) --editable .
	touch $@

# The rest of a development environment: every optional library, the tools of tests and linters.
.venv/.installed: constraints.txt pyproject.toml | .venv/.headrace
	@test -e $@ || echo "Adding to .venv what tests and linters need (500 MB on disk). About a minute, once."
	.venv/bin/pip install --quiet --constraint constraints.txt --no-build-isolation $(STRICT) --editable '.[convert,dev,docs,louvain,partition,plot,pyg]'
	touch $@

# One wheel for every environment.
dist/.wheel: .venv/.installed $(PACKAGE)
	rm -f dist/*.whl
	.venv/bin/pip wheel --quiet --no-deps --no-build-isolation $(STRICT) --wheel-dir dist .
	touch $@

dist/.sdist: .venv/.installed $(PACKAGE)
	rm -f dist/*.tar.gz
	.venv/bin/python -m build --no-isolation --sdist --outdir dist . > /dev/null
	touch $@

# An environment with a headrace of its own that borrows the libraries of .venv: what a .pth entry names is importable,
# while the .pth files in there, the editable install's among them, are not read.
define environment_over_main
	$(PYTHON) -m venv --clear --without-pip $(1)
	.venv/bin/python -c "import site; print(*site.getsitepackages())" > $$(echo $(1)/lib/python*/site-packages)/main.pth
endef

portable-test: .venv-portable/.installed ## run the tests of ops/ on a build without code for AVX2 and AVX-512
	.venv-portable/bin/python -m pytest $(PARALLEL) $(AGAIN) tests/ops $(ARGS)

.venv-portable/.installed: .venv/.installed $(PACKAGE)
	$(call environment_over_main,.venv-portable)
	.venv/bin/pip --python .venv-portable/bin/python install --quiet --no-deps --no-build-isolation \
		$(STRICT) --config-settings build-dir=build/portable --config-settings cmake.define.HEADRACE_PORTABLE=ON .
	touch $@

.venv-wheel/.installed: dist/.wheel
	$(call environment_over_main,.venv-wheel)
	.venv/bin/pip --python .venv-wheel/bin/python install --quiet --no-deps dist/headrace-*.whl
	touch $@

# The fuzzer is guided by what runs of the module (GCC 12), and by libFuzzer, which atheris brings for CPython 3.11 to
# 3.13 on x86-64: first, so that other machines are told before they compile.
.venv-sanitize/.installed: .venv/.installed $(PACKAGE) tests/fuzz/coverage.cpp
	$(call environment_over_main,.venv-sanitize)
	.venv/bin/pip --python .venv-sanitize/bin/python install --quiet --no-deps --only-binary :all: --constraint constraints.txt atheris
	.venv/bin/pip --python .venv-sanitize/bin/python install --quiet --no-deps --no-build-isolation \
		$(STRICT) --config-settings build-dir=build/sanitize --config-settings install.strip=false \
		--config-settings cmake.define.HEADRACE_SANITIZE=ON --config-settings cmake.define.HEADRACE_COVERAGE=ON .
	touch $@

.venv-dgl/.dependencies: constraints-dgl.txt
	$(PYTHON) -m venv --clear .venv-dgl
	.venv-dgl/bin/pip install --quiet --no-deps --requirement constraints-dgl.txt
	touch $@

.venv-dgl/.installed: .venv-dgl/.dependencies dist/.wheel
	.venv-dgl/bin/pip install --quiet --no-deps --force-reinstall dist/headrace-*.whl
	touch $@

# Compiling takes too long to repeat for every change of an environment: remove .venv-torch-sparse after one of torch.
.venv-torch-sparse/.installed: | .venv/.installed
	$(call environment_over_main,.venv-torch-sparse)
	MAX_JOBS=$(JOBS) .venv/bin/pip --python .venv-torch-sparse/bin/python install --quiet --constraint constraints.txt \
		--no-deps --no-build-isolation torch-scatter torch-sparse
	.venv-torch-sparse/bin/python -c "import torch_sparse"
	touch $@
