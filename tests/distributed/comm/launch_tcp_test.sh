#!/bin/sh
# launch_tcp_test.sh MPIRUN PROGRAM: as launch_test.sh, of ranks that TCP joins, each started by itself.
start=$(dirname "$1")/ranks.sh program=$2
. "$(dirname "$0")/expect.sh"

for ranks in 1 2 3 4 5; do
  expect $ranks ok '' well
done
for ranks in 1 5; do
  expect $ranks bad '' status
  expect $ranks bad "$no_file" everywhere
done
# (collectives_mpi_test and tcp_test see how failures reach all ranks, on 1 to 5 of them.)
for ranks in 2 5; do
  expect_faults $ranks
done
expect 4 bad "$(rank "[13]"): in a part of the ranks, counted there: $(rank 1): $no_file (after call 2 split)" split

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
