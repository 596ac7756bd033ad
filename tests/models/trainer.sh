# trainer.sh MPIRUN PROGRAM: what the tests of the trainers share; they source it. $work is a folder that goes when the test
# ends, $failed its exit status. The test sets `usual`, the options of every run, which may give them again.
set -u
mpirun=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
usual=()

fail() {
  echo "$1"
  failed=1
}

# run RANKS OPTIONS...: standard output to $work/out, standard error to $work/err.
run() {
  local ranks=$1 start=()
  shift
  [ "$ranks" = 1 ] || start=("$mpirun" -np "$ranks")
  timeout 60 "${start[@]}" "$program" --threads 1 "${usual[@]}" "$@" >"$work/out" 2>"$work/err"
}

# refuse TEXT OPTIONS...: the options are refused with one line that holds TEXT, alone and on two ranks.
refuse() {
  local text=$1 line="^$(basename "$program"): " ranks status
  shift
  for ranks in 1 2; do
    run $ranks --steps 3 "$@"
    status=$?
    if [ $status = 0 ] || [ $status = 124 ]; then fail "$* on $ranks ranks ended with status $status"; fi
    if [ "$(grep -c "$line" "$work/err")" != 1 ] || ! grep "$line" "$work/err" | grep -q -F -e "$text"; then
      fail "$* on $ranks ranks: expected one line with '$text', got: $(cat "$work/err")"
    fi
    grep -q 'weights sha256' "$work/out" && fail "$* on $ranks ranks went on"
  done
}
