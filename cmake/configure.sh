#!/usr/bin/env bash
# Configures a build folder if needed: on the first call, and when a value or the presets change.
#
#   cmake/configure.sh PRESET FOLDER [NAME=VALUE]…
#
# A NAME that is not given keeps its value.  CI=true makes warnings errors; the presets dev and asan always do.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 folder=$2
shift 2
[ "$preset" != release ] || set -- "DISTRUN_WERROR=$([ "${CI-}" = true ] && echo ON || echo OFF)" "$@"

args=() changed=
[ -e "$folder/build.ninja" ] && [ "$folder/configure.log" -nt CMakePresets.json ] || changed=yes
for setting in "$@"; do
  args+=("-D$setting")
  # A line of the cache is NAME:TYPE=VALUE.
  sed -n "s/^${setting%%=*}:[A-Z]*=//p" "$folder/CMakeCache.txt" 2>/dev/null | grep -qxF -e "${setting#*=}" || changed=yes
done
[ -n "$changed" ] || exit 0

printf 'distrun: configuring %s\n' "$folder" >&2
mkdir -p "$folder"
if ! cmake --preset "$preset" -B "$folder" "${args[@]}" >"$folder/configure.log" 2>&1; then
  # The error message of CMake without its context, or everything if it cannot be found.
  sed -n '/^CMake Error/,/^Call Stack/p' "$folder/configure.log" | sed '/^Call Stack/d;/^$/d' | grep . >&2 ||
    cat "$folder/configure.log" >&2
  printf 'distrun: error: %s could not be configured; the whole output is in %s\n' "$folder" "$folder/configure.log" >&2
  # Otherwise the next call would reuse the wrong values.
  rm -f "$folder/build.ninja" "$folder/CMakeCache.txt"
  exit 1
fi
