#!/usr/bin/env bash
# Configures a project that has distrun as a folder of its own, by add_subdirectory(): for that all its
# targets have to be found, with tests or without.
#
#   cmake/subproject_test.sh LIBTORCH     empty: none
set -euo pipefail
distrun=$(cd "$(dirname "$0")/.." && pwd)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/build"
cat >"$folder/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
set(DISTRUN_LIBTORCH "$1")
add_subdirectory("$distrun" distrun EXCLUDE_FROM_ALL)
add_executable(program program.cc)
target_link_libraries(program PRIVATE distrun::store \$<TARGET_NAME_IF_EXISTS:distrun::testing_main>)
EOF
touch "$folder/program.cc"
for gtest in OFF ON; do
  cmake -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_DISABLE_FIND_PACKAGE_GTest=$gtest >"$folder/log" 2>&1 ||
    { cat "$folder/log"; exit 1; }
  echo "configures where GoogleTest is $([ $gtest = ON ] && echo missing || echo there)"
done
