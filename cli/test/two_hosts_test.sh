#!/usr/bin/env bash
# Two nodes on two hosts whose names resolve to loopback, as Debian's /etc/hosts has them: each worker gets the
# interface that leads to the other node, unless the user names another.  Then the same with IPv6 addresses, and with
# link-local ones, which a second interface of each host has, too.  With PROGRAM, the two nodes also run it at each of
# these addresses.  The hosts are network namespaces, which this makes and removes.
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

# Looking up the name of an address can take a minute, so distrun never does.
if nm "$distrun" 2>/dev/null | grep -wE 'getnameinfo|gethostbyaddr(_r)?'; then exit 1; fi

command -v ip >/dev/null || skip "there is no ip (iproute2)"
for host in 0 1; do
  ip netns add "$name-$host" 2>"$folder/log" || skip "cannot make a network namespace: $(cat "$folder/log")"
  ip -n "$name-$host" link set lo up
done
# What leads to the other host comes last, and the other pair has the same link-local addresses.
ip link add "k$$a" netns "$name-0" type veth peer name "k$$b" netns "$name-1" 2>"$folder/log" ||
  skip "cannot make a pair of interfaces: $(cat "$folder/log")"
ip link add "l$$a" netns "$name-0" type veth peer name "l$$b" netns "$name-1" 2>"$folder/log" ||
  skip "cannot make a pair of interfaces: $(cat "$folder/log")"
for host in 0 1; do
  end=$([ $host = 0 ] && echo a || echo b)
  for interface in "k$$$end" "l$$$end"; do
    ip -n "$name-$host" link set "$interface" addrgenmode none
    ip -n "$name-$host" link set "$interface" up
    ip -n "$name-$host" addr add "fe80::$((host + 1))/64" dev "$interface" nodad
  done
  ip -n "$name-$host" addr add "10.71.0.$((host + 1))/24" dev "k$$$end"
  ip -n "$name-$host" addr add "10.72.0.$((host + 1))/24" dev "l$$$end"
  ip -n "$name-$host" addr add "fd72::$((host + 1))/64" dev "l$$$end" nodad
done

# Where node 0 is, as each node names it.
place0=(--master-addr node0 --master-port 29572)
place1=("${place0[@]}")

# node NUMBER [VARIABLE=VALUE]... -- PROGRAM [ARGUMENT]...
node() {
  local number=$1 own=host$1 variables=(); shift
  local -n place=place$number
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  printf '127.0.0.1 localhost\n127.0.1.1 host%s\n10.72.0.1 node0\n' "$number" >"$folder/hosts$number"
  # On its own host, a node's name is a loopback address.
  [ "$number" != 0 ] || { own=node0; printf '127.0.0.1 localhost\n127.0.1.1 node0\n' >"$folder/hosts0"; }
  ip netns exec "$name-$number" unshare --uts --mount --propagation private sh -c '
    hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"' sh "$own" "$folder/hosts$number" \
    env -u GLOO_SOCKET_IFNAME -u NCCL_SOCKET_IFNAME "${variables[@]}" \
    timeout -k 1 60 "$distrun" launch --nnodes 2 --node-rank "$number" "${place[@]}" \
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

# both PROGRAM [ARGUMENT]...
both() {
  node 1 -- "$@" & pids+=($!)
  node 0 -- "$@" & pids+=($!)
  both_succeed
}
[ $# = 0 ] || both "$@"

# The worker connects to the store.
connects=(sh -c 'echo "$MASTER_ADDR $GLOO_SOCKET_IFNAME" && "$0" store barrier all 2' "$distrun")

place0=(--master-addr fd72::1 --master-port 29573)
place1=("${place0[@]}")
both "${connects[@]}"
[ "$(cat "$folder/out0")" = "fd72::1 l$$a" ]
[ "$(cat "$folder/out1")" = "fd72::1 l$$b" ]
[ $# = 0 ] || both "$@"

# Each node has its own interface.
place0=(--rdzv-endpoint "[fe80::1%l$$a]:29574")
place1=(--master-addr "fe80::1%l$$b" --master-port 29574)
both "${connects[@]}"
[ "$(cat "$folder/out0")" = "fe80::1%l$$a l$$a" ]
[ "$(cat "$folder/out1")" = "fe80::1%l$$b l$$b" ]
grep -q "node 0 listens at \[fe80::1%l$$a\]:29574" "$folder/err0"
[ $# = 0 ] || both "$@"
