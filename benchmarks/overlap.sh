#!/bin/bash
# benchmarks/overlap.sh [overlap|prefetch]: the communication that DDP, or ZeRO 3, hides, on two hosts with a link as slow
# as computing is long. Build //benchmarks:overlap (or :prefetch) first. Needs namespaces (tools/netlab.sh), and tc with its token bucket filter.
set -eu
cd "$(dirname "$0")/.."
name=${1:-overlap}
program=$PWD/bazel-bin/benchmarks/$name
netlab=tools/netlab.sh
[ -x "$program" ] || { echo "overlap.sh: bazel build //benchmarks:$name first" >&2; exit 1; }
[ -n "${NETLAB:-}" ] || exec "$netlab" up 2 "$0" "$name"

# ranks WORDS...: a rank on either host, joined by TCP.
ranks() {
  local place=(env WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500)
  "$netlab" run h2 "${place[@]}" RANK=1 "$program" "$@" &
  "$netlab" run h1 "${place[@]}" RANK=0 "$program" "$@"
  wait $!
}

read -r time rate < <(ranks backward)
echo "computing takes $time ms; link of $rate kbit/s, on which communication takes as long"
for host in h1 h2; do "$netlab" slow $host "${rate}kbit"; done
ranks compare
