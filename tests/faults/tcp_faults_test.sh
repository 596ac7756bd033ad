#!/bin/sh
# tcp_faults_test.sh MPIRUN PROGRAM: as faults_test.sh, of ranks without MPI. These meet by themselves, and tell each other
# why they do not: so a job that fails while it starts may take a little longer.
exec python3 "$(dirname "$0")/inject_faults.py" "$2" --mpirun "$(dirname "$1")/ranks.sh" --patience 10 --faults 7
