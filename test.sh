#!/bin/bash
# ./test.sh [--asan | --ubsan | --tsan | --config=NAME]: installs what is missing, builds everything and runs every
# test. The last line is `N passed, N failed`; the exit status is 0 only if nothing failed.
#
# One test is a Bazel test (those under mpirun count once for each number of ranks), the outside project of
# tests/outside, or the check of the sources' layout. A build that fails counts as one failed test.
set -u -o pipefail
cd "$(dirname "$0")" || exit 1

options=()
for option in "$@"; do
  case $option in
    --asan | --ubsan | --tsan) options+=("--config=${option#--}") ;;
    --config=*) options+=("$option") ;;
    *) echo "usage: ./test.sh [--asan | --ubsan | --tsan | --config=NAME]" >&2; exit 2 ;;
  esac
done

passed=0
failed=0

# check NAME COMMAND...: one test that is a command.
check() {
  local name=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    echo "FAILED: $name"
    failed=$((failed + 1))
  fi
}

finish() {
  echo "$passed passed, $failed failed"
  [ $failed = 0 ]
  exit
}

tools/install_packages.sh || { failed=1; finish; }

bazel build --keep_going "${options[@]}" //... || { echo "FAILED: build"; failed=1; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
bazel test --keep_going "${options[@]}" //... 2>&1 | tee "$log"
# Bazel's summary has one line a test: `//tests/core:shape_test   (cached) PASSED in 0.1s`, `... FAILED TO BUILD`.
passed=$(grep -c -E '^//\S+ +(\(cached\) )?PASSED' "$log")
failed=$((failed + $(grep -c -E '^//\S+ +(FAILED|TIMEOUT|FLAKY|INCOMPLETE|NO STATUS)' "$log")))
[ $((passed + failed)) -gt 0 ] || failed=1
# A test that cannot run on this machine passes, and says so in its log.
grep -r -h --include=test.log '^skipped: ' bazel-testlogs/

check "layout of the sources (run tools/format.sh)" tools/format.sh --check
# The outside project is built with its own options, so it is the same under every configuration.
[ ${#options[@]} -gt 0 ] || check "outside project" tests/outside/test.sh
finish
