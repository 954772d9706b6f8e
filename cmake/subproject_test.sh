#!/usr/bin/env bash
# Configures a project that contains distrun through add_subdirectory(), with and without
# GoogleTest: CMake must find every target. Then builds it with shared libraries; its own folder
# common/ must not clash with distrun's.
#
#   cmake/subproject_test.sh DISTRUN LIBTORCH     DISTRUN: the built program; LIBTORCH: may be empty
set -euo pipefail
distrun=$(cd "$(dirname "$0")/.." && pwd) program=$1 libtorch=$2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/build"
cat >"$folder/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
set(DISTRUN_LIBTORCH "$libtorch" CACHE PATH "")
add_subdirectory("$distrun" distrun EXCLUDE_FROM_ALL)
add_executable(program program.cc)
target_include_directories(program PRIVATE .)
target_link_libraries(program PRIVATE distrun::store)
if(TARGET distrun::testing_main)
  add_executable(tests EXCLUDE_FROM_ALL program.cc)
  target_link_libraries(tests PRIVATE distrun::testing_main)
endif()
EOF
cp -r "$distrun/examples/library/common" "$folder"
cp "$distrun/examples/library/use_own_common.cc" "$folder/program.cc"
for gtest in OFF ON; do
  cmake -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_DISABLE_FIND_PACKAGE_GTest=$gtest >"$folder/log" 2>&1 ||
    { cat "$folder/log"; exit 1; }
  echo "configures with GoogleTest $([ $gtest = ON ] && echo missing || echo installed)"
done

cmake -S "$folder" -B "$folder/build" -DBUILD_SHARED_LIBS=ON -DDISTRUN_UNITY=ON -DDISTRUN_LIBTORCH= >"$folder/log" 2>&1 &&
  cmake --build "$folder/build" --target program >>"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
said=$("$program" launch --timeout 60 --nproc-per-node 2 "$folder/build/program")
printf '%s\n' "$said"
[[ $(ldd "$folder/build/program") == *libdistrun_store.so* ]]
[ "$(sort <<<"$said")" = $'rank 0: 2 ranks have come\nrank 1: 2 ranks have come' ]
