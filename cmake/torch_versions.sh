#!/usr/bin/env bash
# `make torch-versions`: builds distrun with each LibTorch named, and runs every test with it.  Prints one line a version,
# and the tests that failed.
#
#   cmake/torch_versions.sh VERSION…      such as 2.11.0 2.15.0
#
# Each version stays in .deps/torch-VERSION and build-torch-VERSION.  A CUDA build of torch takes 6 GB.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
[ $# -gt 0 ] || { echo "usage: cmake/torch_versions.sh VERSION…" >&2; exit 2; }
mkdir -p .deps
status=0
# fail WHAT LOG
fail() { printf '%s; see %s\n' "$1" "$2"; tail -n 20 "$2" >&2; status=1; }
for version; do
  venv=.deps/torch-$version build=build-torch-$version
  printf 'LibTorch %s: ' "$version"
  log=.deps/torch-$version.log
  if ! VENV=$venv TORCH_VERSION=$version cmake/setup.sh libtorch 2>"$log"; then
    fail 'not installed' "$log"; continue
  fi
  torch=$(realpath -e "$venv"/lib/python3*/site-packages/torch)
  begin=$SECONDS log=.deps/$build.log
  if ! cmake/configure.sh release "$build" "DISTRUN_LIBTORCH=$torch" "DISTRUN_TORCH_PYTHON=$PWD/$venv/bin/python3" >"$log" 2>&1 ||
    ! ninja -C "$build" --quiet >>"$log" 2>&1; then
    fail 'does not build' "$log"; continue
  fi
  printf 'builds in %s s, ' $((SECONDS - begin))
  log=.deps/$build-tests.log
  ctest --test-dir "$build" -j 2 --output-on-failure >"$log" 2>&1 || status=1
  # ctest's summary is "99% tests passed, 2 tests failed out of 1641".
  awk '/tests passed, .* failed out of/ { printf "%d of %d tests pass\n", $NF - $4, $NF; found = 1 }
    END { if (!found) print "the tests did not run" }' "$log"
  sed -n '/^The following tests FAILED/,/^Errors/s/^[[:space:]]*[0-9]* - /  /p' "$log"
done
exit $status
