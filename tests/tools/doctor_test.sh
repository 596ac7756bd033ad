#!/bin/sh
# doctor_test.sh MPIRUN PROGRAM: what the doctor says alone, under mpirun and over TCP.
set -u
mpirun=$1 ranks_sh=$(dirname "$1")/ranks.sh program=$2
failed=0

# expect PATTERN: a line of the output that fits it.
expect() {
  printf '%s\n' "$output" | grep -q -x -E "$1" || { printf 'no line "%s" in:\n%s\n' "$1" "$output"; failed=1; }
}
# machine STARTED: what every report says.
machine() {
  expect "$1"
  expect 'MPI: .+; MPI_THREAD_MULTIPLE'
  expect '  cores       [0-9]+ of [0-9]+'
  expect '  memory      [1-9][0-9.]* GiB, [0-9.]+ free'
  expect '  interfaces  .+'
  expect '  CUDA        .+'
  expect '   0  .*'
}
# pairs N: as many lines of measurements.
pairs() {
  found=$(printf '%s\n' "$output" | grep -c -E '^[0-9]+ on .*, [0-9]+ on .* +[0-9.]+ +[0-9.]+$')
  [ "$found" = "$1" ] || { printf '%s pairs instead of %s in:\n%s\n' "$found" "$1" "$output"; failed=1; }
}

output=$(timeout 60 "$program" 2>&1) || failed=1
machine '1 rank on 1 host, started by nobody but you'
pairs 0
output=$(timeout 60 "$mpirun" -np 3 "$program" 2>&1) || failed=1
machine '3 ranks on 1 host, started by mpirun \(Open MPI\)'
pairs 3
output=$(timeout 60 "$ranks_sh" -np 2 "$program" 2>&1) || failed=1
machine '2 ranks on 1 host, started by the environment'
pairs 1
exit $failed
