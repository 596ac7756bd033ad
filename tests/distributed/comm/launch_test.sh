#!/bin/sh
# launch_test.sh MPIRUN PROGRAM: however a program under run_main ends, it ends soon, on every rank, with one line.
set -u
mpirun=$1 program=$2
failed=0
CAPSTAN_FLIGHT_RECORDS=$(mktemp -d)
export CAPSTAN_FLIGHT_RECORDS
trap 'rm -rf "$CAPSTAN_FLIGHT_RECORDS"' EXIT

# expect RANKS STATUS LINE HOW: STATUS is "ok" or "bad"; LINE is a pattern of the only line "launch_program: ..."
# (empty: there is none).
expect() {
  output=$(CAPSTAN_TIMEOUT=1 timeout 60 "$mpirun" -np "$1" "$program" "$4" 2>&1)
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
for ranks in 1 2 4; do
  last=$((ranks - 1))
  expect $ranks ok '' well
  expect $ranks bad '' status
  expect $ranks bad "$no_file" everywhere
done
for ranks in 2 4; do
  last=$((ranks - 1))
  expect $ranks bad "rank $last: $no_file$records" one
  expect $ranks bad "rank $last: $no_file$records" one-early
  expect $ranks bad "rank $last: $no_file" together
  expect $ranks bad "rank $last: $no_file$records" busy
  expect $ranks bad "\[agree\] options must be the same on all ranks: rank 0 has '.*3', rank $last has '.*2'" agree
  expect $ranks bad ".* made call 2 all_reduce .* \"bucket 0\", rank $last made call 2 broadcast .*$records" differ
  expect $ranks bad ".* \"bucket 1\" did not finish within .* s: .*; rank $last has only come to call 1$records" late
  expect $ranks bad '' dies # mpirun speaks, and tells the others to end
  grep -q 'told to end (SIGTERM)' "$CAPSTAN_FLIGHT_RECORDS/world-rank-0.json" ||
    { echo "no flight record of a rank that was told to end"; failed=1; }
  expect $ranks bad ".* \"bucket 2\" did not finish within .* s: .*; rank $last on .* does not answer$records" stopped
done
for rank in 0 1 2 3; do
  grep -q '"tag": "bucket 2"' "$CAPSTAN_FLIGHT_RECORDS/world-rank-$rank.json" || [ $rank = $last ] ||
    { echo "no flight record of rank $rank"; failed=1; }
done
expect 4 bad "rank 1: in a part of the ranks, counted there: rank 1: $no_file" split

# expect_line LINE COMMAND...: the command fails, and LINE is what the program says (empty: nothing).
expect_line() {
  line=$1
  shift
  output=$("$@" 2>&1)
  status=$?
  said=$(printf '%s\n' "$output" | grep '^launch_program: ')
  if [ $status = 0 ] || [ "$said" != "${line:+launch_program: $line}" ]; then
    printf '%s: expected "%s", found status %s and:\n%s\n\n' "$*" "$line" $status "$output"
    failed=1
  fi
}

# Before there is a communicator, the launcher's first rank speaks for all, and others if it has not ended them.
no_number="[communicator] CAPSTAN_TIMEOUT is a number of seconds above 0, got 'soon'"
for launcher in OMPI_COMM_WORLD_SIZE,OMPI_COMM_WORLD_RANK PMI_SIZE,PMI_RANK SLURM_STEP_NUM_TASKS,SLURM_PROCID; do
  expect_line "$no_number" env CAPSTAN_TIMEOUT=soon "${launcher%,*}=2" "${launcher#*,}=0" "$program"
  expect_line "rank 1: $no_number" env CAPSTAN_TIMEOUT=soon "${launcher%,*}=2" "${launcher#*,}=1" "$program"
done

# A launcher that says other than MPI counts, as the mpirun of another MPI library does.
counts='ranks, but the MPI library that this program is linked with counts'
advice='start it with the mpirun of that library'
expect_line "[world] mpirun (Open MPI) started 3 $counts 2: $advice" \
  "$mpirun" -np 2 env OMPI_COMM_WORLD_SIZE=3 "$program"
expect_line "[world] mpiexec (PMI) started 2 $counts 1: $advice" env PMI_SIZE=2 PMI_RANK=0 "$program"
exit $failed
