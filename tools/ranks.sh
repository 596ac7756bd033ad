#!/bin/bash
# tools/ranks.sh -np N PROGRAM [OPTIONS]: N ranks of a program on this one machine, without MPI; TCP joins them.
#
# It does what a person on several hosts does by hand: starts each rank with RANK, WORLD_SIZE, MASTER_ADDR and
# MASTER_PORT. When a rank fails, the others get some seconds to say why and end, and then are killed. The status is
# that of the first rank that failed.
set -u
if [ $# -lt 3 ] || [ "$1" != -np ] || ! [[ $2 =~ ^[1-9][0-9]{0,3}$ ]]; then
  echo "usage: tools/ranks.sh -np N PROGRAM [OPTIONS]" >&2
  exit 2
fi
export WORLD_SIZE=$2 MASTER_ADDR=${MASTER_ADDR:-localhost} MASTER_PORT=${MASTER_PORT:-$((20000 + RANDOM % 12000))}
shift 2

ranks=()
end_all() { kill -KILL "${ranks[@]}" 2>/dev/null; }
trap 'kill -TERM "${ranks[@]}" 2>/dev/null; exit 143' TERM INT

for ((rank = 0; rank < WORLD_SIZE; rank++)); do
  RANK=$rank "$@" &
  ranks+=($!)
done

status=0
killer=
left=("${ranks[@]}")
while [ ${#left[@]} -gt 0 ]; do
  wait -n -p ended "${left[@]}"
  code=$?
  for i in "${!left[@]}"; do
    [ "${left[i]}" = "$ended" ] && unset "left[i]"
  done
  left=("${left[@]}")
  if [ $code != 0 ] && [ $status = 0 ]; then
    status=$code
    (sleep 2.5; end_all) >/dev/null 2>&1 &
    killer=$!
  fi
done 2>/dev/null  # bash's notes about ranks that were killed
[ -z "$killer" ] || kill "$killer" 2>/dev/null
exit $status
