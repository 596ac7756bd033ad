#!/bin/sh
# tools/fuzz.sh [SECONDS [TARGET...]]: runs the fuzz targets of tests/fuzz one after the other, 60 seconds each.
#
# Needs clang (Debian: clang-16, libclang-rt-16-dev). Each begins with the files of tests/data/testdata and
# tests/core/testdata. An input that breaks a reader is written to fuzz-findings/; keep it as a case of the reader's
# test.
# BAZEL_STARTUP and BAZEL_OPTIONS add options of Bazel's before and after its command.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls *_fuzz.cc | sed 's/_fuzz\.cc$//')
command -v clang-16 >/dev/null || { echo "tools/fuzz.sh needs clang-16: apt-get install clang-16 libclang-rt-16-dev" >&2; exit 1; }

targets=
for name; do targets="$targets //tests/fuzz:${name}_fuzz"; done
bazel ${BAZEL_STARTUP:-} build --config=fuzz ${BAZEL_OPTIONS:-} $targets
folder=$(bazel ${BAZEL_STARTUP:-} info --config=fuzz ${BAZEL_OPTIONS:-} bazel-bin 2>/dev/null)/tests/fuzz

corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
mkdir -p fuzz-findings
failed=
for name; do
  mkdir "$corpus/$name"
  echo "== $name"
  "$folder/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="fuzz-findings/$name-" "$corpus/$name" tests/data/testdata tests/core/testdata ||
    failed="$failed $name"
done
[ -z "$failed" ] || { echo "Findings in fuzz-findings/ of:$failed" >&2; exit 1; }
