#!/usr/bin/env bash
# Packs what was built in BUILD (the preset `package`) into dist/.
#
#   packaging/make_packages.sh BUILD DEB|TGZ
#
# Environment: DEBFULLNAME and DEBEMAIL, the maintainer of the packages, as in Debian's tools.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 generator=$2
log=$build/$generator.log
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022
contact=()
[ -z "${DEBEMAIL-}" ] || contact=(-D "CPACK_PACKAGE_CONTACT=${DEBFULLNAME:-the distrun authors} <$DEBEMAIL>")
cpack --config "$build/CPackConfig.cmake" -G "$generator" -B "$build/packages" "${contact[@]}" >"$log" 2>&1 ||
  { tail -n 20 "$log" >&2; printf 'distrun: error: the whole output is in %s\n' "$log" >&2; exit 1; }
mkdir -p dist
if [ "$generator" = DEB ]; then rm -f dist/*.deb; else rm -f dist/*.tar.gz; fi
sed -n 's/^CPack: - package: \(.*\) generated\.$/\1/p' "$log" | while read -r package; do
  mv "$package" dist/
  printf 'dist/%s\n' "${package##*/}"
done
