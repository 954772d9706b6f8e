#!/usr/bin/env bash
# Runs a program without GLOO_SOCKET_IFNAME on two hosts whose names resolve to loopback, as in
# Debian's /etc/hosts. The hosts are network namespaces, which this script creates and removes.
#
#   backends/test/two_hosts_test.sh PROGRAM [ARGUMENT]...
#
# Rank 0 serves the store of each default group, so the program can make only one.
# Environment: RANKS_PER_HOST (1), TIMEOUT_S (60). Exit status 77: namespaces cannot be created here.
set -euo pipefail
name=distrun$$
folder=$(mktemp -d)
pids=()
clean_up() {
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  for host in 0 1; do ip netns del "$name-$host" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap clean_up EXIT
skip() { echo "skipped: $1"; exit 77; }

command -v ip >/dev/null || skip "there is no ip (iproute2)"
for host in 0 1; do
  ip netns add "$name-$host" 2>"$folder/log" || skip "no network namespace can be made: $(cat "$folder/log")"
  ip -n "$name-$host" link set lo up
  printf '127.0.0.1 localhost\n127.0.1.1 host%s\n' "$host" >"$folder/hosts$host"
done
ip link add "d$$a" netns "$name-0" type veth peer name "d$$b" netns "$name-1" 2>"$folder/log" ||
  skip "no pair of interfaces can be made: $(cat "$folder/log")"
ip -n "$name-0" addr add 10.71.0.1/24 dev "d$$a"
ip -n "$name-1" addr add 10.71.0.2/24 dev "d$$b"
ip -n "$name-0" link set "d$$a" up
ip -n "$name-1" link set "d$$b" up

per_host=${RANKS_PER_HOST:-1}
# rank RANK COMMAND…
rank() {
  local rank=$1 number=$(($1 / per_host)); shift
  ip netns exec "$name-$number" unshare --uts --mount --propagation private sh -c '
    hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"' sh "host$number" "$folder/hosts$number" \
    env -u GLOO_SOCKET_IFNAME -u TORCHELASTIC_USE_AGENT_STORE RANK="$rank" WORLD_SIZE=$((2 * per_host)) MASTER_ADDR=10.71.0.1 MASTER_PORT=29571 \
    timeout -k 1 "${TIMEOUT_S:-60}" "$@"
}
for each in $(seq $((2 * per_host)) -1 1); do
  rank $((each - 1)) "$@" & pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
[ "$status" -eq 0 ] || exit "$status"

[ "$per_host" -eq 1 ] || exit 0
# An interface named by the user is used, even if it does not exist.
if rank 0 env WORLD_SIZE=1 GLOO_SOCKET_IFNAME=nowhere0 "$@" >"$folder/out"; then exit 1; fi
grep -F nowhere0 "$folder/out"
