#!/usr/bin/env bash
# `make torch-versions`: builds distrun with each LibTorch named, and runs every test with it.  Prints one line a version.
#
#   cmake/torch_versions.sh VERSION…      such as 2.11.0 2.15.0
#
# Each version stays in .deps/torch-VERSION and build-torch-VERSION.  A CUDA build of torch takes 6 GB.
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: cmake/torch_versions.sh VERSION…" >&2; exit 2; }
status=0
for version; do
  venv=.deps/torch-$version build=build-torch-$version
  printf 'LibTorch %s: ' "$version"
  if ! VENV=$venv TORCH_VERSION=$version cmake/setup.sh libtorch 2>.deps/torch-versions.log; then
    printf 'not to be had\n'; cat .deps/torch-versions.log >&2; status=1; continue
  fi
  torch=$(realpath -e "$venv"/lib/python3*/site-packages/torch)
  begin=$SECONDS
  if ! cmake/configure.sh release "$build" "DISTRUN_LIBTORCH=$torch" "DISTRUN_TORCH_PYTHON=$PWD/$venv/bin/python3" 2>"$build.log" ||
    ! ninja -C "$build" --quiet >"$build.log" 2>&1; then
    printf 'does not build\n'; tail -n 20 "$build.log" >&2; status=1; continue
  fi
  printf 'builds in %s s; ' $((SECONDS - begin))
  ctest --test-dir "$build" -j 2 --output-on-failure >"$build.log" 2>&1 || status=1
  sed -n 's/ tests passed, /% of the tests pass, /; s/^\([0-9]*\)%% of/\1% of/p; /\*\*\*\(Failed\|Timeout\|Exception\)/p' "$build.log"
done
exit $status
