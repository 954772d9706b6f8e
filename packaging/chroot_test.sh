#!/usr/bin/env bash
# Installs and uses the packages of dist/ in a bare Debian: the program's .deb, the library's, the tarball, and the wheel in
# a virtual environment.  Prints their sizes, and what took how long.  Needs root, debootstrap and a mirror of Debian.
#
#   packaging/chroot_test.sh FOLDER [SUITE]     for a chroot of 1 GiB, which is removed; SUITE: bookworm (default), trixie, …
#
# Environment: DEBIAN_MIRROR, debootstrap's MIRROR.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { printf 'distrun: the packages are not tried in a bare Debian: %s\n' "$*" >&2; exit 0; }
unshare --mount true 2>/dev/null || skip "only root may mount and change its root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"

suite=${2-bookworm}
folder=$(realpath "$(mktemp -d -p "$1" chroot.XXXXXX)")
trap 'rm -rf --one-file-system "$folder"' EXIT
root=$folder/root

# inside COMMAND: in the chroot.  Its processes and what it mounts end with it.
inside() {
  PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
    unshare --pid --fork --kill-child --mount-proc --root="$root" sh -euc "$1" </dev/null
}
# timed WHAT COMMAND…: shows the output only if the command fails.
timed() {
  local what=$1 begin=${EPOCHREALTIME/./} ms
  shift
  "$@" >"$folder/log" 2>&1 || { tail -n 20 "$folder/log"; exit 1; }
  ms=$(((${EPOCHREALTIME/./} - begin) / 1000))
  printf '%s: %d.%d s\n' "$what" $((ms / 1000)) $((ms % 1000 / 100))
}
size() { printf '%s: %sB\n' "${1##*/}" "$(stat -c %s "$1" | numfmt --to=si)"; }
# used DISTRUN LAUNCH: what a user does first.
used() {
  inside "$1 --version"
  said=$(inside "$2 --nproc-per-node 2 sh -c 'echo rank \$RANK'" | sort)
  [ "$said" = $'rank 0\nrank 1' ] || { printf '%s printed:\n%s\n' "$2" "$said"; exit 1; }
}

timed "a bare Debian, $suite" unshare --mount debootstrap --variant=minbase "$suite" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
mkdir "$root/dist"
cp dist/distrun_*.deb dist/libdistrun-dev_*.deb dist/distrun-*.tar.gz dist/distrun-*.whl "$root/dist"

size dist/distrun_*.deb
timed "dpkg --install" inside 'dpkg --install /dist/distrun_*.deb'
used distrun "distrun launch"
inside 'cd /usr/share && ls man/man1/distrun-launch.1.gz bash-completion/completions/distrun zsh/vendor-completions/_distrun >/dev/null'
timed "dpkg --purge" inside 'dpkg --purge distrun'
left=$(inside 'find /etc /usr /var -name "*distrun*"')
[ -z "$left" ] || { printf 'dpkg --purge leaves:\n%s\n' "$left"; exit 1; }

# The library: a program with a store.  Its package is for the Boost of the Debian that built it.
if inside 'apt-get install --simulate "$(dpkg-deb -f /dist/libdistrun-dev_*.deb Depends | grep -o "libboost[0-9.]*-dev")" >/dev/null 2>&1'; then
  timed "apt-get install of the library and a compiler" inside 'apt-get install -y --no-install-recommends /dist/*.deb g++ cmake make'
  cp -r examples/library "$root/dist/"
  timed "a program with the library" inside 'cmake -S /dist/library -B /build -DLIBRARY=store && cmake --build /build'
  inside 'distrun launch --timeout 100 --nproc-per-node 2 /build/use_store'
  inside 'apt-get purge -y "*distrun*" >/dev/null'
else
  echo "libdistrun-dev: not for $suite, which has another Boost"
fi

size dist/distrun-*.tar.gz
timed "tar" inside 'tar -C /usr/local --strip-components=1 -xf /dist/*.tar.gz'
used distrun "distrun launch"

size dist/distrun-*.whl
timed "apt-get install python3-venv" inside 'apt-get install -y --no-install-recommends python3-venv'
timed "python3 -m venv" inside 'python3 -m venv /venv'
timed "pip install" inside '/venv/bin/pip install --no-index /dist/*.whl'
used /venv/bin/distrun "/venv/bin/distrun launch"
used "/venv/bin/python -m distrun" "/venv/bin/python -m distrun.run --no-python"
