#!/usr/bin/env bash
# `make debian-versions`: builds the program in a bare Debian of each suite named, with that suite's compiler and libraries, and
# runs the tests that need no LibTorch.  Prints one line a suite.  Needs root, debootstrap and a mirror of Debian.
#
#   cmake/debian_versions.sh SUITE…      such as trixie sid
#
# Environment: DEBIAN_MIRROR, debootstrap's MIRROR.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: cmake/debian_versions.sh SUITE…" >&2; exit 2; }
status=0
for suite; do
  folder=$(realpath "$(mktemp -d -p . build-debian.XXXXXX)")
  trap 'rm -rf --one-file-system "$folder"' EXIT
  root=$folder/root log=build-debian-$suite.log
  # inside COMMAND: in the chroot.  Its processes and what it mounts end with it.
  inside() {
    PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
      unshare --pid --fork --kill-child --mount-proc --root="$root" sh -euc "$1" </dev/null
  }
  printf '%s: ' "$suite"
  begin=$SECONDS
  if unshare --mount debootstrap --variant=minbase "$suite" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$log" 2>&1 &&
    mkdir "$root/distrun" && git archive HEAD | tar -x -C "$root/distrun" &&
    inside 'apt-get install -y --no-install-recommends make git && cd /distrun && make launcher' >>"$log" 2>&1 &&
    inside 'cd /distrun && ninja -C build --quiet common_test store_test evidence_test launcher_test harness_test' >>"$log" 2>&1 &&
    inside 'cd /distrun && ctest --test-dir build -j 2 --output-on-failure -R "^(common|store|evidence|launcher|harness)_test\."' >>"$log" 2>&1
  then
    inside 'printf "GCC %s, Boost %s, fmt %s: " "$(g++ -dumpfullversion)" \
      "$(sed -n "s/^#define BOOST_LIB_VERSION \"\(.*\)\"/\1/p" /usr/include/boost/version.hpp | tr _ .)" \
      "$(dpkg-query -W -f "\${Version}" libfmt-dev)"'
    printf '%s, %s s\n' "$(awk '/tests passed, .* failed out of/ { printf "%d of %d tests pass", $NF - $4, $NF }' "$log")" $((SECONDS - begin))
  else
    printf 'failed; see %s\n' "$log"
    tail -n 20 "$log" >&2
    status=1
  fi
  rm -rf --one-file-system "$folder"
done
exit $status
