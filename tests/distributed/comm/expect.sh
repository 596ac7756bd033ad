# expect.sh: what launch_test.sh and launch_tcp_test.sh share, sourced by them. They set `start`, the command that takes
# "-np RANKS PROGRAM HOW", and `program`.
set -u
failed=0
CAPSTAN_FLIGHT_RECORDS=$(mktemp -d)
export CAPSTAN_FLIGHT_RECORDS
trap 'rm -rf "$CAPSTAN_FLIGHT_RECORDS"' EXIT

# How errors end that leave flight records, and what they name: `rank "N"` is a pattern of "rank N on HOST".
records="; flight records in $CAPSTAN_FLIGHT_RECORDS"
rank() { printf 'rank %s on [^ ,:;]*' "$1"; }

# expect RANKS STATUS LINE HOW: STATUS is "ok" or "bad"; LINE is a pattern of the only line "launch_program: ..."
# (empty: there is none).
expect() {
  output=$(CAPSTAN_TIMEOUT=1 timeout 60 "$start" -np "$1" "$program" "$4" 2>&1)
  case $? in
    0) status=ok ;;
    124) status=hung ;;
    *) status=bad ;;
  esac
  lines=$(printf '%s\n' "$output" | grep '^launch_program: ')
  if [ $status != "$2" ] || ! printf '%s\n' "$lines" | grep -qx "${3:+launch_program: $3}" ||
    [ "$(printf '%s\n' "$lines" | wc -l)" != 1 ]; then
    printf '%s on %s ranks: expected status %s and the line "%s", found status %s and:\n%s\n\n' \
      "$4" "$1" "$2" "$3" $status "$output"
    failed=1
  fi
}

# expect_faults RANKS: every way in which the last rank of launch_program may fail.
no_file="\\[read\\] no file 'data'"
expect_faults() {
  last=$(($1 - 1))
  after="(after call 1 all_reduce sum float32\\[1000\\])"
  cut_short="did not finish within 1 s: $(rank '[0-9]*') waited for $(rank '[0-9]*')"
  expect "$1" bad "$(rank $last): $no_file $after$records" one
  expect "$1" bad "$(rank $last): $no_file $after$records" one-early
  expect "$1" bad "$(rank $last): $no_file" together
  expect "$1" bad "$(rank $last): $no_file $after$records" busy
  expect "$1" bad "\\[agree\\] options must be the same on all ranks: $(rank 0) has '.*3', $(rank $last) has '.*2'" agree
  expect "$1" bad ".* made call 2 all_reduce .* \"bucket 0\", $(rank $last) made call 2 broadcast .*$records" differ
  expect "$1" bad ".* \"bucket 1\" $cut_short; $(rank $last) has only come to call 1 all_reduce .*$records" late
  expect "$1" bad ".* \"bucket 2\" $cut_short; $(rank $last) does not answer; .* come to call 2$records" stopped
  # (mpirun lets a stopped rank go on before it ends it; that must not say something else then.)
  expect "$1" bad ".* \"bucket 2\" $cut_short; $(rank 0) does not answer; .* come to call 2$records" stopped-first
  expect "$1" bad ".* call 2 all_reduce .* cannot go on without $(rank $last), which has ended or is cut off$records" dies
}

# Every ending that does not depend on how ranks are joined, on several numbers of them.
expect_endings() {
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
}
