#!/usr/bin/env bash
# Two nodes on two hosts whose names resolve to loopback, as Debian's /etc/hosts has them: each worker gets the
# interface that leads to the other node, unless the user names another.  With PROGRAM, the two nodes then run it.  The
# hosts are network namespaces, which this makes and removes.
#
#   cli/test/two_hosts_test.sh DISTRUN [PROGRAM [ARGUMENT]...]
#
# Exit status 77: namespaces cannot be created here.
set -euo pipefail
distrun=$1; shift
name=distrun-launch$$
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
  ip netns add "$name-$host" 2>"$folder/log" || skip "cannot make a network namespace: $(cat "$folder/log")"
  ip -n "$name-$host" link set lo up
done
ip link add "l$$a" netns "$name-0" type veth peer name "l$$b" netns "$name-1" 2>"$folder/log" ||
  skip "cannot make a pair of interfaces: $(cat "$folder/log")"
ip -n "$name-0" addr add 10.72.0.1/24 dev "l$$a"
ip -n "$name-1" addr add 10.72.0.2/24 dev "l$$b"
ip -n "$name-0" link set "l$$a" up
ip -n "$name-1" link set "l$$b" up

# node NUMBER [VARIABLE=VALUE]... -- PROGRAM [ARGUMENT]...
node() {
  local number=$1 own=host$1 variables=(); shift
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  printf '127.0.0.1 localhost\n127.0.1.1 host%s\n10.72.0.1 node0\n' "$number" >"$folder/hosts$number"
  # On its own host, a node's name is a loopback address.
  [ "$number" != 0 ] || { own=node0; printf '127.0.0.1 localhost\n127.0.1.1 node0\n' >"$folder/hosts0"; }
  ip netns exec "$name-$number" unshare --uts --mount --propagation private sh -c '
    hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"' sh "$own" "$folder/hosts$number" \
    env -u GLOO_SOCKET_IFNAME -u NCCL_SOCKET_IFNAME "${variables[@]}" \
    timeout -k 1 60 "$distrun" launch --nnodes 2 --node-rank "$number" --master-addr node0 --master-port 29572 \
    "$@" >"$folder/out$number" 2>"$folder/err$number"
}
both_succeed() {
  for pid in "${pids[@]}"; do wait "$pid" || { cat "$folder"/out* "$folder"/err*; exit 1; }; done
  pids=()
  cat "$folder/out0" "$folder/out1"
}
names=(sh -c 'echo "$GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME"')
node 1 GLOO_SOCKET_IFNAME=mine -- "${names[@]}" & pids+=($!)
node 0 -- "${names[@]}" & pids+=($!)
both_succeed
[ "$(cat "$folder/out0")" = "l$$a =l$$a" ]
[ "$(cat "$folder/out1")" = "mine =l$$b" ]

[ $# -gt 0 ] || exit 0
node 1 -- "$@" & pids+=($!)
node 0 -- "$@" & pids+=($!)
both_succeed
