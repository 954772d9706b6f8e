#!/usr/bin/env bash
# Runs a compiler or linker, and adds a line to $DISTRUN_BUILD_LOG: CPU seconds and the output file.
# `make build-times` puts this before every command of a build.
TIMEFORMAT='%U %S'
output=
for ((i = 1; i < $#; i++)); do
  [ "${!i}" != -o ] || { next=$((i + 1)); output=${!next}; break; }
done
exec 3>&1 4>&2
times=$( { time "$@" 1>&3 2>&4 3>&- 4>&-; } 2>&1 )
status=$?
[ -z "${DISTRUN_BUILD_LOG-}" ] || printf '%s %s\n' "$times" "$output" >>"$DISTRUN_BUILD_LOG"
exit $status
