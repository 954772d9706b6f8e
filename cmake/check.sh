#!/usr/bin/env bash
# `make check`: format, include rule, clang-tidy, installed shared libraries, packages, and tests under sanitizers.
#
#   cmake/check.sh         everything
#   cmake/check.sh quick   format, include rule, and clang-tidy for recent changes
#
# Environment: LIBTORCH (default: that of .deps/venv), TORCH_PYTHON (a Python that can import torch).
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
say() { printf 'distrun: %s\n' "$*" >&2; }
torch=$(realpath -e "${LIBTORCH:-$(echo .deps/venv/lib/python3*/site-packages/torch)}")

say "checking the format"
git ls-files -z '*.cc' '*.h' | xargs -0 clang-format --dry-run --Werror

say "checking that includes point down"
python3 -B cmake/check_includes.py

say "checking shell scripts' syntax"
git ls-files -z '*.sh' .ci/run | xargs -0 -n 1 bash -n

say "reading each file alone (clang-tidy; tests: the compiler)"
cmake/configure.sh dev build-tidy "DISTRUN_LIBTORCH=$torch"
ninja -C build-tidy --quiet build.ninja  # Updates the list of sources after a CMakeLists.txt changes.
if [ "${1-}" = quick ]; then
  exec python3 -B cmake/tidy.py changed
fi
python3 -B cmake/tidy.py all

say "configuring with each option"
cmake/options_test.sh "$torch"

say "compiling public headers as C++17"
cmake/older_standard_test.sh "$torch"

say "installing shared libraries, and building programs with them"
cmake/configure.sh release build-shared "DISTRUN_LIBTORCH=$torch" BUILD_SHARED_LIBS=ON BUILD_TESTING=OFF
ninja -C build-shared --quiet
cmake/stripped_test.sh build-shared
for use in store own_common backends sharing parallel testing ${TORCH_PYTHON:+python_module}; do
  cmake/install_test.sh build-shared "$use" "$torch" "${TORCH_PYTHON-}"
done

say "building packages, and using what they install"
make check-packages

say "running the tests under the address and undefined-behaviour sanitizers"
cmake/configure.sh asan build-asan "DISTRUN_LIBTORCH=$torch"
ninja -C build-asan --quiet
cmake/sanitized_tests.sh asan build-asan

say "running the tests under the thread sanitizer"
cmake/configure.sh tsan build-tsan "DISTRUN_LIBTORCH=$torch"
ninja -C build-tsan --quiet distrun store_test launcher_test sharing_test spawn_test parallel_multirank_test
cmake/sanitized_tests.sh tsan build-tsan

say "running the tests of backends/shm/host under the thread sanitizer"
cmake/shm_host_tests.sh "$torch" tsan
