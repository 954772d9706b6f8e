#!/usr/bin/env bash
# Configures a project that includes cmake/LibTorch.cmake, with a LibTorch that is too old, tested, newer than tested, or
# incomplete.  It is made here: a header with the version, and empty libraries.
set -euo pipefail
module=$(cd "$(dirname "$0")" && pwd)/LibTorch.cmake
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
libtorch=$folder/libtorch
cat >"$folder/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES NONE)
include("$module")
END

# configure VERSION [COMMAND]: sets $said, "ok:" or "fails:" and the output in one line.  COMMAND damages the LibTorch.
configure() {
  local status=ok part=(${1//./ })
  mkdir -p "$libtorch/include/torch/headeronly" "$libtorch/lib"
  touch "$libtorch"/lib/lib{torch,torch_cpu,c10}.so
  printf '#define TORCH_VERSION_%s\n' "MAJOR ${part[0]}" "MINOR ${part[1]}" "PATCH ${part[2]-0}" >"$libtorch/include/torch/headeronly/version.h"
  ${2-}
  said=$(cmake -S "$folder" -B "$folder/build" -DDISTRUN_LIBTORCH="$libtorch" 2>&1) || status=fails
  said=$status:$(tr -s ' \n' ' ' <<<"$said")
  rm -rf "$libtorch" "$folder/build"
}
expect() { [[ $said == $1 ]] || { printf 'expected: %s\ngot:      %s\n' "$1" "$said"; exit 1; }; }

configure 1.13.1
expect "fails:*LibTorch 1.13.1 in $libtorch is too old: distrun needs * or newer.*"
oldest=$(sed 's/.*distrun needs \([0-9.]*\) or newer.*/\1/' <<<"$said")

configure 99.0.1
expect "ok:*CMake Warning *LibTorch 99.0.1 is newer than *, the newest that distrun was tested with.*"
newest=$(sed 's/.*is newer than \([0-9.]*\), the newest.*/\1/' <<<"$said")

for version in "$oldest.0" "$newest.9"; do
  configure "$version"
  expect "ok:*-- LibTorch $version: $libtorch *"
  [[ $said != *Warning* ]] || { echo "a warning about a tested version: $said"; exit 1; }
done
configure "${oldest%.*}.$((${oldest#*.} - 1)).9"
expect "fails:*is too old*"
configure "${newest%.*}.$((${newest#*.} + 1))"
expect "ok:*is newer than $newest, *"

remove_version() { rm -r "$libtorch/include"; }
configure "$newest" remove_version
expect "fails:*$libtorch is not a LibTorch: it has no include/torch/headeronly/version.h.*"
remove_library() { rm "$libtorch/lib/libc10.so"; }
configure "$newest" remove_library
expect "fails:*$libtorch/lib/libc10.so is missing: *"
echo "distrun takes LibTorch $oldest to $newest"
