#!/usr/bin/env bash
# Configures distrun with each of its options, and checks what would be built.
#
#   cmake/options_test.sh [LIBTORCH]    without it, the options of what needs LibTorch are left out
set -euo pipefail
cd "$(dirname "$0")/.."
libtorch=${1-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset LDFLAGS

# configured NAME=VALUE…: sets $rules to the rules of such a build.
configured() {
  local settings=("${@/#/-D}")
  rm -rf "$folder/build"
  cmake -S . -B "$folder/build" -G Ninja "${settings[@]}" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  rules=$folder/rules
  cat "$folder/build/build.ninja" "$folder/build/CMakeFiles/rules.ninja" >"$rules"
  printf 'configured with %s\n' "$*"
}
has() { grep -q -e "$1" "$rules" || { echo "missing: $1"; exit 1; }; }
has_not() { if grep -m 1 -e "$1" "$rules"; then echo "not expected: $1"; exit 1; fi; }

# A machine with only a shared pugixml.
mkdir "$folder/pugixml"
cat >"$folder/pugixml/pugixmlConfig.cmake" <<'EOF'
add_library(pugixml::shared SHARED IMPORTED)
set_target_properties(pugixml::shared PROPERTIES IMPORTED_LOCATION /nowhere/libpugixml.so)
add_library(pugixml::pugixml INTERFACE IMPORTED)
target_link_libraries(pugixml::pugixml INTERFACE pugixml::shared)
EOF
echo 'set(PACKAGE_VERSION_COMPATIBLE TRUE)' >"$folder/pugixml/pugixmlConfigVersion.cmake"
configured pugixml_DIR="$folder/pugixml" DISTRUN_BUILD_TESTS=OFF
has /nowhere/libpugixml.so
has_not '=.* -static '

configured CMAKE_CXX_STANDARD=17
has '=.* -static '
has 'build bench/launch_bench'
has 'build tests/store_test'
has -std=c++20
mold=$(grep -c -e -fuse-ld=mold "$rules" || true)
command -v mold >/dev/null && [ "$mold" = 0 ] && { echo "mold is not used"; exit 1; }

configured DISTRUN_BUILD_TESTS=OFF DISTRUN_BUILD_BENCH=OFF CMAKE_CXX_FLAGS=-fuse-ld=bfd CMAKE_CXX_STANDARD=23
has_not 'build bench/'
has_not 'build tests/'
has_not -fuse-ld=mold
has -std=c++23

configured BUILD_TESTING=OFF DISTRUN_MOLD=OFF CMAKE_CXX_COMPILER_LAUNCHER=/usr/bin/env
has_not 'build tests/'
has_not -fuse-ld=mold
has ' = /usr/bin/env '

configured CMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold
has_not -fuse-ld=mold

# Every preset exists, and so does a workflow for each that has tests.
cmake --list-presets=configure >"$folder/presets"
cmake --workflow --list-presets >"$folder/workflows"
for preset in release dev asan tsan; do
  grep -q "\"$preset\"" "$folder/presets" && grep -q "\"$preset\"" "$folder/workflows" || { echo "no preset or workflow: $preset"; exit 1; }
done

if [ -n "$libtorch" ]; then
  configured DISTRUN_LIBTORCH="$libtorch" BUILD_TESTING=OFF
  has 'build distrun-suites'
  has 'build examples/'
  configured DISTRUN_LIBTORCH="$libtorch" BUILD_TESTING=OFF DISTRUN_BUILD_EXAMPLES=OFF DISTRUN_BUILD_SUITES=OFF
  has_not 'build distrun-suites'
  has_not 'build examples/'
  has 'build lib/libdistrun_parallel.a'
fi
