#!/bin/sh
# faults_test.sh MPIRUN PROGRAM: one fault of each kind; inject_faults.py by itself injects as many as one likes.
exec python3 "$(dirname "$0")/inject_faults.py" "$2" --launchers "$1"
