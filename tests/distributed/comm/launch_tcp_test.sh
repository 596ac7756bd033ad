#!/bin/sh
# launch_tcp_test.sh MPIRUN PROGRAM: as launch_test.sh, of ranks that TCP joins, each started by itself.
start=$(dirname "$1")/ranks.sh program=$2
. "$(dirname "$0")/expect.sh"

expect_endings
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
