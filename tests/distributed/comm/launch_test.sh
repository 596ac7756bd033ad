#!/bin/sh
# launch_test.sh MPIRUN PROGRAM: however a program under run_main ends, it ends soon, on every rank, with one line.
start=$1 program=$2
. "$(dirname "$0")/expect.sh"

expect_endings
for rank in 0 1 2 3; do
  grep -q 'cannot go on without rank 4 on' "$CAPSTAN_FLIGHT_RECORDS/world-rank-$rank.json" ||
    { echo "no flight record of rank $rank"; failed=1; }
done
expect 4 bad "$(rank "[13]"): in a part of the ranks, counted there: $(rank 1): $no_file (after call 2 split)" split

# A launcher that ends a rank (SIGTERM) which cannot know why: it leaves the records of all its communicators.
rm -rf "${CAPSTAN_FLIGHT_RECORDS:?}"/*
"$start" -np 2 sh -c 'echo $$ >"$CAPSTAN_FLIGHT_RECORDS/rank-$OMPI_COMM_WORLD_RANK"; exec "$0" told' "$program" \
  >"$CAPSTAN_FLIGHT_RECORDS/out" 2>&1 &
job=$!
until grep -q waiting "$CAPSTAN_FLIGHT_RECORDS/out"; do kill -0 $job || break; sleep 0.05; done
kill "$(cat "$CAPSTAN_FLIGHT_RECORDS/rank-0")"
wait $job && { echo "a rank that was told to end did not"; failed=1; }
for name in world world-2.0; do
  grep -q 'told to end (SIGTERM)' "$CAPSTAN_FLIGHT_RECORDS/$name-rank-0.json" ||
    { echo "no flight record of $name of a rank that was told to end"; failed=1; }
done

# expect_line LINE COMMAND...: the command fails, and LINE is a pattern of what the program says (empty: nothing).
expect_line() {
  line=$1
  shift
  output=$("$@" 2>&1)
  status=$?
  said=$(printf '%s\n' "$output" | grep '^launch_program: ')
  if [ $status = 0 ] || ! printf '%s\n' "$said" | grep -qx "${line:+launch_program: $line}"; then
    printf '%s: expected "%s", found status %s and:\n%s\n\n' "$*" "$line" $status "$output"
    failed=1
  fi
}

# Before there is a communicator, the launcher's first rank speaks for all, and others if it has not ended them.
no_number="\[communicator\] CAPSTAN_TIMEOUT is a number of seconds above 0, got 'soon'"
for launcher in OMPI_COMM_WORLD_SIZE,OMPI_COMM_WORLD_RANK PMI_SIZE,PMI_RANK SLURM_STEP_NUM_TASKS,SLURM_PROCID; do
  expect_line "$no_number" env CAPSTAN_TIMEOUT=soon "${launcher%,*}=2" "${launcher#*,}=0" "$program"
  expect_line "$(rank 1): $no_number" env CAPSTAN_TIMEOUT=soon "${launcher%,*}=2" "${launcher#*,}=1" "$program"
done

# A launcher that says other than MPI counts, as the mpirun of another MPI library does.
counts='ranks, but the MPI library that this program is linked with counts'
advice='start it with the mpirun of that library'
expect_line "\[world\] mpirun (Open MPI) started 3 $counts 2: $advice" \
  "$start" -np 2 env OMPI_COMM_WORLD_SIZE=3 "$program"
expect_line "\[world\] mpiexec (PMI) started 2 $counts 1: $advice" env PMI_SIZE=2 PMI_RANK=0 "$program"
exit $failed
