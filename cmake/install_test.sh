#!/usr/bin/env bash
# Installs distrun into a folder of its own, builds a program of examples/library against that, and
# runs it on two workers.
#
#   cmake/install_test.sh BUILD store|backends [LIBTORCH]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 library=$2 libtorch=${3-}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }; }

quietly cmake --install "$build" --prefix "$folder/prefix"
# No CMAKE_BUILD_TYPE: it is to compile, to link and to run, not to be fast.
quietly cmake -S examples/library -B "$folder/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" \
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DLIBRARY="$library" -DDISTRUN_LIBTORCH="$libtorch"
quietly cmake --build "$folder/build"
said=$("$folder/prefix/bin/distrun" launch --timeout 60 --nproc-per-node 2 "$folder/build/use_$library")
printf '%s\n' "$said"
[ "$(sort <<<"$said")" = $'rank 0: 2 ranks have come\nrank 1: 2 ranks have come' ]
