#!/bin/sh
# tcp_faults_test.sh MPIRUN PROGRAM: as faults_test.sh, of ranks without MPI.
exec python3 "$(dirname "$0")/inject_faults.py" "$2" --launchers "$(dirname "$1")/ranks.sh"
