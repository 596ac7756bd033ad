#!/bin/sh
# tools/mpirun.sh -np N PROGRAM [OPTIONS]: mpirun for ranks on this one machine, wherever it runs: as root, in a
# container, in Bazel's sandbox, with more ranks than cores, beside other jobs. All arguments go to mpirun.
#
# A variable that is set already wins; MPIRUN names another launcher. For several hosts call mpirun itself.
set -eu

default() { eval "export $1=\${$1:-$2}"; }

default OMPI_ALLOW_RUN_AS_ROOT 1
default OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1

# More ranks than cores are fine, and no two jobs are pinned to the same cores. Capstan's waits sleep by themselves;
# a yielding MPI would make them wait for whole time slices of the threads that compute.
default OMPI_MCA_rmaps_base_oversubscribe 1
default OMPI_MCA_hwloc_base_binding_policy none
default OMPI_MCA_mpi_yield_when_idle 0

# Shared memory between ranks, and the loopback interface for control: a job starts in half the time that looking
# for fast networks takes, and copies need no right to trace other processes.
default OMPI_MCA_pml ob1
default OMPI_MCA_btl self,vader,tcp
default OMPI_MCA_btl_vader_single_copy_mechanism none
default OMPI_MCA_btl_tcp_if_include lo
default OMPI_MCA_oob_tcp_if_include lo

# After a rank's error mpirun adds a note of its own. OMPI_MCA_orte_execute_quiet=1 takes it away, but not by default:
# mpirun then says nothing either of a program that is missing or a rank that was killed.

# Sanitizer builds: Open MPI keeps memory until the process ends, and is not instrumented itself.
default ASAN_OPTIONS detect_leaks=0
default TSAN_OPTIONS ignore_noninstrumented_modules=1

# Sockets of this job in a folder of its own (a short path: their names are limited), removed with it.
TMPDIR=$(mktemp -d /tmp/mpi.XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'kill -TERM "$pid" 2>/dev/null || :; wait "$pid" || :; exit 143' TERM INT

"${MPIRUN:-mpirun}" "$@" &
pid=$!
wait "$pid"
