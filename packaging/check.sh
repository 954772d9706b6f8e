#!/usr/bin/env bash
# `make check-packages`: installs the wheel, the Debian packages and the tarball of dist/ into folders, and uses them there;
# as root also in bare Debians (chroot_test.sh).
# Where `conan` is on the PATH, it also builds the Conan package, with the dependencies of this machine.
#
# Environment: PYTHONS, the Pythons that try the wheel; default: each of 3.10 to 3.14 that is found.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
say() { printf 'distrun: %s\n' "$*" >&2; }
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }; }
ranks() { "$1" launch --nproc-per-node 2 --no-python sh -c 'echo $RANK' | sort | xargs; }

say "the wheel"
wheel=$(ls dist/distrun-*.whl)
# auditwheel says from which tag on the program runs; the wheel's own tag may be newer.
build-wheel/venv/bin/auditwheel show --json "$wheel" >"$folder/audit"
oldest=$(sed -n 's/.*"overall_tag": "\(manylinux_.*\)".*/\1/p' "$folder/audit")
tag=${wheel##*-} tag=${tag%.whl}
if [ -z "$oldest" ] || ! printf '%s\n' "$oldest" "$tag" | sort --version-sort --check=quiet; then
  build-wheel/venv/bin/auditwheel show "$wheel"
  echo "auditwheel refuses the tag $tag" && exit 1
fi
# shellcheck disable=SC2086  # one word a Python
packaging/wheel_test.sh "$wheel" ${PYTHONS-}

say "the Debian packages"
# Whoever publishes the packages gives them an address: see make_packages.sh.
lintian --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog dist/*.deb
for package in dist/*.deb; do
  dpkg-deb --extract "$package" "$folder/deb"
done
[ "$(ls "$folder/deb")" = usr ]
[ "$(ranks "$folder/deb/usr/bin/distrun")" = "0 1" ]
if ldd "$folder/deb/usr/bin/distrun" 2>/dev/null; then
  echo "distrun needs shared libraries" && exit 1
fi
if grep -a -o -F "$PWD/" "$folder/deb/usr/bin/distrun"; then
  echo "distrun contains paths of this machine" && exit 1
fi
for page in distrun distrun-launch distrun-store distrun-store-get distrun-test; do
  gzip --test "$folder/deb/usr/share/man/man1/$page.1.gz"
done
bash -n "$folder/deb/usr/share/bash-completion/completions/distrun"
zsh -n "$folder/deb/usr/share/zsh/vendor-completions/_distrun"

say "the tarball"
mkdir "$folder/tarball"
tar -C "$folder/tarball" --strip-components=1 -xf dist/distrun-*.tar.gz
quietly cmake -S examples/library -B "$folder/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/tarball" \
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DLIBRARY=store
quietly cmake --build "$folder/build"
"$folder/tarball/bin/distrun" launch --timeout 100 --nproc-per-node 2 "$folder/build/use_store"

say "a bare Debian 12, and 13"
packaging/chroot_test.sh build-package bookworm
packaging/chroot_test.sh build-package trixie

if ! command -v conan >/dev/null; then
  say "the Conan recipe is not tested: conan is not installed"
  exit
fi
say "the Conan package"
export CONAN_HOME=$folder/conan
version() { dpkg-query -W -f '${Version}' "$1" | sed 's/^[0-9]*://; s/[^0-9.].*//'; }
boost=$(sed -n 's/#define BOOST_LIB_VERSION "\([0-9]*\)_\([0-9]*\).*/\1.\2.0/p' /usr/include/boost/version.hpp)
quietly conan profile detect
cat >>"$CONAN_HOME/profiles/default" <<END
[platform_requires]
boost/$boost
cli11/$(version libcli11-dev)
elfutils/$(version libdw-dev)
fmt/$(version libfmt-dev)
minizip/1.2.13
nlohmann_json/$(version nlohmann-json3-dev)
pugixml/$(version libpugixml-dev)
END
quietly conan create packaging/conan --no-remote -s compiler.cppstd=20
grep -q "2 ranks have come" "$folder/log"
