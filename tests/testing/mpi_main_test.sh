#!/bin/sh
# mpi_main_test.sh MPIRUN PROGRAM: a failure on one rank must end the job, soon, with a report of that rank.
set -u
mpirun=$1 program=$2
failed=0

# expect STATUS TEXT CASE: runs the case on two ranks; STATUS is ok or bad, TEXT must be in the output.
expect() {
  output=$(timeout 30 "$mpirun" -np 2 "$program" --test-case="$3" 2>&1)
  case $? in
    0) status=ok ;;
    124) status=hung ;;
    *) status=bad ;;
  esac
  if [ $status != "$1" ] || ! printf '%s' "$output" | grep -q -F -e "$2"; then
    printf '"%s": expected status %s and "%s", found status %s and:\n%s\n\n' "$3" "$1" "$2" $status "$output"
    failed=1
  fi
}

expect ok '[ranks] 2 ranks; 0 test cases failed' 'nothing fails'
expect bad '[rank 1] tests/testing/mpi_main_program.cc:15: ERROR: CHECK( world_rank() != 1 )' 'rank 1 fails at the end'
expect bad '[ranks] 2 ranks; 1 test cases failed' 'rank 1 fails at the end'
expect bad '[rank 1] failed in "rank 1 fails while rank 0 waits for it"' 'rank 1 fails while rank 0 waits for it'
expect bad '[rank 1] stopped in "rank 1 dies"' 'rank 1 dies'
exit $failed
