#!/bin/bash
# benchmarks/overlap.sh: the communication that DDP hides, on two hosts with a link as slow as backward is long. Build
# //benchmarks:overlap first. Needs namespaces (tools/netlab.sh), and tc with its token bucket filter.
set -eu
cd "$(dirname "$0")/.."
program=$PWD/bazel-bin/benchmarks/overlap
netlab=tools/netlab.sh
[ -x "$program" ] || { echo "overlap.sh: bazel build //benchmarks:overlap first" >&2; exit 1; }
[ -n "${NETLAB:-}" ] || exec "$netlab" up 2 "$0"

# ranks WORDS...: a rank on either host, joined by TCP.
ranks() {
  local place=(env WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500)
  "$netlab" run h2 "${place[@]}" RANK=1 "$program" "$@" &
  "$netlab" run h1 "${place[@]}" RANK=0 "$program" "$@"
  wait $!
}

read -r time rate < <(ranks backward)
echo "a backward pass takes $time ms; link of $rate kbit/s, on which the gradients take as long"
for host in h1 h2; do "$netlab" slow $host "${rate}kbit"; done
ranks compare
