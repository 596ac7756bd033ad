#!/bin/sh
# tcp_launch_test.sh MPIRUN PROGRAM: as launch_test.sh, of ranks that TCP joins, each started by itself.
set -u
ranks_sh=$(dirname "$1")/ranks.sh
program=$2
failed=0
CAPSTAN_FLIGHT_RECORDS=$(mktemp -d)
export CAPSTAN_FLIGHT_RECORDS
trap 'rm -rf "$CAPSTAN_FLIGHT_RECORDS"' EXIT

# expect RANKS STATUS LINE HOW: STATUS is "ok" or "bad"; LINE is a pattern of the only line "launch_program: ..."
# (empty: there is none).
expect() {
  output=$(CAPSTAN_TIMEOUT=1 timeout 60 "$ranks_sh" -np "$1" "$program" "$4" 2>&1)
  case $? in
    0) status=ok ;;
    124) status=hung ;;
    *) status=bad ;;
  esac
  lines=$(printf '%s\n' "$output" | grep '^launch_program: ')
  if [ $status != "$2" ] || ! printf '%s\n' "$lines" | grep -qx "${3:+launch_program: $3}" ||
    [ "$(printf '%s\n' "$lines" | wc -l)" != 1 ]; then
    printf '%s on %s ranks: expected status %s and the line "%s", found status %s and:\n%s\n\n' \
      "$4" "$1" "$2" "$3" $status "$output"
    failed=1
  fi
}

no_file="\\[read\\] no file 'data'"
records="; flight records in $CAPSTAN_FLIGHT_RECORDS"
for ranks in 1 2 3 5; do
  expect $ranks ok '' well
  expect $ranks bad '' status
  expect $ranks bad "$no_file" everywhere
done
for ranks in 2 3 4 5; do
  last=$((ranks - 1))
  expect $ranks bad "rank $last: $no_file$records" one
  expect $ranks bad "rank $last: $no_file$records" one-early
  expect $ranks bad "rank $last: $no_file" together
  expect $ranks bad "rank $last: $no_file$records" busy
  expect $ranks bad ".* made call 2 all_reduce .* \"bucket 0\", rank $last made call 2 broadcast .*$records" differ
  expect $ranks bad ".* \"bucket 1\" did not finish within .* s: .*; rank $last has only come to call 1$records" late
  expect $ranks bad ".* \"bucket 2\" did not finish within .* s: .*; rank $last on .* does not answer$records" stopped
  expect $ranks bad ".* cannot go on without rank $last, whose process has ended; rank $last on .* does not answer$records" dies
done
expect 4 bad "rank 1: in a part of the ranks, counted there: rank 1: $no_file" split

# Started as Slurm's srun does without MPI: the step's hosts and the job's number say where to meet.
slurm() {
  SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=$1 SLURM_STEP_NODELIST=$2 SLURM_JOB_ID=$$ timeout 60 "$program" well
}
slurm 1 localhost &
output=$(slurm 0 'localhost,h[2-4]')
status=$?
wait $! && [ $status = 0 ] && printf '%s\n' "$output" | grep -q 'ranks 2 sum 2' ||
  { echo "srun: status $status and: $output"; failed=1; }
exit $failed
