#!/bin/bash
# hosts_test.sh MPIRUN PROGRAM: the trainer across the hosts of tools/netlab.sh, started by plain mpirun as README.md
# says. However the ranks are placed, and with a slow link, the weights are those of one rank alone, to the last bit. A
# host that is cut off or killed ends the job on all hosts, within seconds, and what remains continues from the
# checkpoint to the same weights.
#
# Without MPI, by variables alone, it is the same.
#
# Where namespaces are not allowed, it says "skipped" and passes.
set -u
netlab=$(realpath "$(dirname "$1")/netlab.sh")
program=$(realpath "$2")

if [ -z "${NETLAB:-}" ]; then
  "$netlab" up 4 "$0" "$@"
  status=$?
  [ $status = 77 ] || exit $status
  echo "skipped: tests/hosts, since there can be no hosts"
  exit 0
fi

failed=0
fail() {
  echo "FAILED: $1"
  failed=1
}

now() { echo $((${EPOCHREALTIME/./} / 1000)); }  # in ms
begin=$(now)
say() { echo "after $((($(now) - begin) / 1000)) s: $1"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 - "$work" <<'PYTHON'
import random, struct, sys
random.seed(1)
for prefix, n in ('train', 300), ('t10k', 90):
    open(f'{sys.argv[1]}/{prefix}-images-idx3-ubyte', 'wb').write(
        struct.pack('>IIII', 0x803, n, 28, 28) + random.randbytes(n * 784))
    open(f'{sys.argv[1]}/{prefix}-labels-idx1-ubyte', 'wb').write(
        struct.pack('>II', 0x801, n) + bytes(i % 10 for i in range(n)))
PYTHON
training=(--model mlp --data "$work" --epochs 4 --dropout 0.2 --global-batch 32 --threads 1 --quiet)
network=()

# job [mpirun's options] -- [the trainer's options]: mpirun on h1; its output goes to $work/out and $work/err.
job() {
  local launcher=()
  while [ "$1" != -- ]; do launcher+=("$1"); shift; done
  shift
  timeout -k 1 60 "$netlab" run h1 mpirun --bind-to none -x CAPSTAN_TIMEOUT "${network[@]}" "${launcher[@]}" \
    "$program" "${training[@]}" "$@" >"$work/out" 2>"$work/err"
}

# same WHAT [as job]: this job ends with the weights of one rank.
same() {
  local what=$1
  shift
  job "$@" || fail "$what: status $?, $(cat "$work/err")"
  [ "$(tail -n 1 "$work/out")" = "$weights" ] || fail "$what: not '$weights', but $(cat "$work/out")"
  say "$what"
}

ranks_on() { for host in "$@"; do "$netlab" ps "$host"; done | awk -v program="$program" '$2 == program'; }

# fault COMMAND [as job]: this job on four hosts, where netlab's COMMAND befalls h3 as soon as there is a checkpoint. It
# must end with a failure, and all its ranks soon: within CAPSTAN_TIMEOUT and 5 s, or 10 s on a busy machine.
fault() {
  local command=$1 start status
  shift
  rm -rf "$work/checkpoint"
  job --host h1,h2,h3,h4 "$@" --checkpoint "$work/checkpoint" --save-every 5 &
  until [ -e "$work/checkpoint/latest.json" ] || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
  start=$(now)
  "$netlab" "$command" h3 || fail "$command did not work"
  [ -n "$(ranks_on h1)" ] || fail "$command: the job had ended before, $(cat "$work/out" "$work/err")"
  while [ -n "$(ranks_on h1 h2 h3 h4)" ] && [ $(($(now) - start)) -lt 15000 ]; do sleep 0.5; done
  echo "  no ranks after $(($(now) - start)) ms"
  [ $(($(now) - start)) -lt 15000 ] || fail "$command: too long, there are still $(ranks_on h1 h2 h3 h4)"
  wait $!
  status=$?
  echo "  mpirun ended after $(($(now) - start)) ms"
  if [ $status = 0 ] || [ $status = 124 ] || [ $status = 137 ]; then fail "$command: mpirun's status was $status"; fi
  sed 's/^/  /' "$work/err"
  "$netlab" kill h3  # also what runs on behind the cut
  "$netlab" mend h3 || fail "h3 did not come back"
}

# Docker gives every host a network of the same address: without btl_tcp_if_include no job would start.
docker0='ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up'
for host in h1 h2 h3 h4; do "$netlab" run $host sh -c "$docker0" || fail "no docker0 on $host"; done
CAPSTAN_TIMEOUT=5 job --host h1,h2 -- && fail "two networks of one address: the job ended well"
# (A rank that mpirun has not ended yet may say it as well.)
[ "$(sort -u "$work/err" | grep -c '^train_image: \[world\] MPI did not start within 10 s')" = 1 ] ||
  fail "two networks of one address: $(cat "$work/err")"
say "hosts that do not find each other"
network=(--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0)

"$program" "${training[@]}" >"$work/alone" || fail "one rank alone failed"
weights=$(tail -n 1 "$work/alone")
[[ $weights =~ ^"weights sha256 "[0-9a-f]{64}$ ]] || fail "one rank alone printed: $(cat "$work/alone")"
say "one rank alone"

export CAPSTAN_TIMEOUT=60
same "four hosts, a rank on each" --host h1,h2,h3,h4 --
same "two hosts, two ranks on each" --host h1:2,h2:2 --
same "four hosts, two stages, each shared out to two" --host h1,h2,h3,h4 -- --pipeline 2 --zero 3
continue=(--host "h1:2,h2:2" -- --checkpoint "$work/checkpoint" --resume)

# mpirun asks its hosts often enough to notice first.
keepalive=(--mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 2)
fault cut "${keepalive[@]}" --
grep -q 'Remote daemon: .* on node h3' "$work/err" || fail "cut: mpirun did not name h3"
say "a host cut off, noticed by mpirun"

# The ranks notice first. mpirun tells the host that is cut off to end, and waits until its kernel gives up: by
# default 15 minutes, here 3 s.
for host in h1 h2 h3 h4; do "$netlab" run $host sh -c 'echo 3 >/proc/sys/net/ipv4/tcp_retries2'; done
CAPSTAN_TIMEOUT=5 fault cut --
[ "$(grep -c "^train_image: " "$work/err")" = 1 ] || fail "cut: not one line: $(cat "$work/err")"
grep -q -E '^train_image: \[\w+\] call [0-9]+ .* did not finish within 5 s: .*; rank 2 on h3 does not answer' "$work/err" ||
  fail "cut: not the call and the rank: $(cat "$work/err")"
same "a host cut off, noticed by the ranks, continued on two" "${continue[@]}"

CAPSTAN_TIMEOUT=5 fault kill --
same "a host killed, continued on two" "${continue[@]}"

# by_hand [the trainer's options]: without MPI, a rank on each of the four hosts; rank 0's output goes to $work/out.0 ...
by_hand() {
  for rank in 0 1 2 3; do
    timeout -k 1 60 "$netlab" run h$((rank + 1)) env RANK=$rank WORLD_SIZE=4 MASTER_ADDR=h1 MASTER_PORT=29500 \
      "$program" "${training[@]}" "$@" >"$work/out.$rank" 2>"$work/err.$rank" &
  done
  wait
}
by_hand
[ "$(tail -n 1 "$work/out.0")" = "$weights" ] || fail "without MPI: not '$weights', but $(cat "$work/out.0" "$work/err".*)"
say "four hosts without MPI"
rm -rf "$work/checkpoint"
CAPSTAN_TIMEOUT=5 by_hand --checkpoint "$work/checkpoint" --save-every 5 &
until [ -e "$work/checkpoint/latest.json" ] || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
start=$(now)
"$netlab" cut h3 || fail "cut did not work"
wait $!
echo "  no ranks after $(($(now) - start)) ms"
[ $(($(now) - start)) -lt 15000 ] || fail "cut without MPI: too long"
sed 's/^/  /' "$work/err.0"
grep -q -E '^train_image: \[\w+\] call [0-9]+ .* did not finish within 5 s: .*; rank 2 on h3 does not answer' "$work/err.0" ||
  fail "cut without MPI: not the call and the rank: $(cat "$work/err".*)"
"$netlab" mend h3 || fail "h3 did not come back"
say "a host cut off, without MPI"

"$netlab" slow h4 400mbit || fail "no slow link"
same "four hosts, one with a slow link" --host h1,h2,h3,h4 --
exit $failed
