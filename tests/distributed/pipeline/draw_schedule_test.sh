#!/bin/sh
# draw_schedule: what it prints, what it draws, and what it refuses.
set -eu
program=$2

"$program" --help | grep -q 'interleaved'
"$program" --stages 4 --microbatches 8 --backward-weight 1 | grep -q '^makespan 33, bubble 37.5 %$'
"$program" --schedule interleaved --chunks 2 --svg "$TEST_TMPDIR/i.svg" | grep -q 'bubble 18.75 %'
grep -q 'interleaved: stages 4, chunks a stage 2, microbatches 8' "$TEST_TMPDIR/i.svg"
"$program" --stages 2 --microbatches 1 --list | grep -q '^stage 1: rF0 F0 B0 sB0 x0$'

refused() {
  message=$1
  shift
  if "$program" "$@" >"$TEST_TMPDIR/out" 2>&1; then
    echo "accepted: $*" >&2
    exit 1
  fi
  grep -q -e "$message" "$TEST_TMPDIR/out" || { cat "$TEST_TMPDIR/out" >&2; exit 1; }
}
refused '^draw_schedule: \[interleaved\] needs a multiple of 4 microbatches' --schedule interleaved --microbatches 6
refused '^draw_schedule: \[make_schedule\] knows gpipe' --schedule 2f2b
refused '^draw_schedule: .*takes at most 10000000 passes' --stages 99999999
refused '^draw_schedule: \[simulate\] times must be finite' --forward nan
refused 'columns' --columns 0
refused "stages = 99999999999" --stages 99999999999
refused "stages = four" --stages four
