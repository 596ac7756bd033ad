#!/bin/bash
# tools/ranks.sh -np N PROGRAM [OPTIONS]: N ranks of a program on this one machine, without MPI; TCP joins them.
#
# It does what a person on several hosts does by hand: starts each rank with RANK, WORLD_SIZE, MASTER_ADDR and
# MASTER_PORT. When a rank fails, the others get some seconds to say why and end, and then are killed, or earlier if all
# that are left are stopped. The status is that of the first rank that failed.
set -u
if [ $# -lt 3 ] || [ "$1" != -np ] || ! [[ $2 =~ ^[1-9][0-9]{0,3}$ ]]; then
  echo "usage: tools/ranks.sh -np N PROGRAM [OPTIONS]" >&2
  exit 2
fi
export WORLD_SIZE=$2 MASTER_ADDR=${MASTER_ADDR:-localhost} MASTER_PORT=${MASTER_PORT:-$((20000 + RANDOM % 12000))}
shift 2

ranks=()
end_all() { kill -KILL "${ranks[@]}" 2>/dev/null; }
some_run() {
  local rank state
  for rank in "${ranks[@]}"; do
    read -r state <"/proc/$rank/stat" || continue
    case ${state##*) } in [TZ]*) ;; *) return 0 ;; esac
  done
  return 1
}
# Waits a while for the ranks to end by themselves.
see_them_out() {
  for ((i = 0; i < 25; i++)); do
    sleep 0.1
    some_run || break
  done
  end_all
}
trap 'kill -TERM "${ranks[@]}" 2>/dev/null; exit 143' TERM INT

for ((rank = 0; rank < WORLD_SIZE; rank++)); do
  RANK=$rank "$@" &
  ranks+=($!)
done

status=0
killer=
left=("${ranks[@]}")  # by rank
exec 3>&2
while [ ${#left[@]} -gt 0 ]; do
  wait -n -p ended "${left[@]}"
  code=$?
  for rank in "${!ranks[@]}"; do
    if [ "${ranks[rank]}" = "$ended" ]; then break; fi
  done
  unset "left[rank]"
  [ $code -le 128 ] || [ $status != 0 ] || echo "ranks.sh: rank $rank was ended by signal $((code - 128))" >&3
  if [ $code != 0 ] && [ $status = 0 ]; then
    status=$code
    see_them_out >/dev/null 2>&1 3>&- &
    killer=$!
  fi
done 2>/dev/null  # bash's notes about ranks that were killed
[ -z "$killer" ] || kill "$killer" 2>/dev/null
exit $status
