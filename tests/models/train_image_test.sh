#!/bin/bash
# train_image_test.sh MPIRUN PROGRAM: what the program prints and writes, and what it says to bad input, alone and
# on two ranks: one line on standard error, a non-zero exit, no hang, and nothing left half-written.
. "$(dirname "$0")/trainer.sh"

# The quick data set: 300 and 90 images in the format of MNIST; labels of `bad` go beyond 9, `other` is another set.
python3 - "$work" <<'PYTHON'
import gzip, os, random, struct, sys
random.seed(1)
def images(n): return struct.pack('>IIII', 0x803, n, 28, 28) + random.randbytes(n * 784)
def labels(n, classes=10): return struct.pack('>II', 0x801, n) + bytes(i % classes for i in range(n))
for name, classes in ('data', 10), ('bad', 11), ('other', 9):
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder)
    for prefix, n in ('train', 300), ('t10k', 90):
        open(f'{folder}/{prefix}-images-idx3-ubyte', 'wb').write(images(n))
        with gzip.open(f'{folder}/{prefix}-labels-idx1-ubyte.gz', 'wb') as file:
            file.write(labels(n, classes))
PYTHON
data=$work/data
usual=(--model mlp --data "$data")
cp -r "$data" "$work/cut"
gzip "$work/cut/train-images-idx3-ubyte"
truncate -s 100000 "$work/cut/train-images-idx3-ubyte.gz"
cp -r "$data" "$work/short"
truncate -s 100000 "$work/short/train-images-idx3-ubyte"

# A run that ends well.
for ranks in 1 2; do
  rm -rf "$work/run"
  run $ranks --epochs 2 --global-batch 32 --dropout 0.2 \
    --checkpoint "$work/run" --metrics "$work/run/metrics.jsonl" --plot "$work/run/loss.svg" ||
    fail "a good run on $ranks ranks failed: $(cat "$work/err")"
  tail -n 2 "$work/out" | head -n 1 | grep -q -E '^test accuracy [0-9.]+ %$' || fail "no test accuracy: $(cat "$work/out")"
  tail -n 1 "$work/out" | grep -q -E '^weights sha256 [0-9a-f]{64}$' || fail "no sha256: $(cat "$work/out")"
  grep -q '^16 virtual shards a step: ' "$work/out" || fail "nothing about virtual shards: $(cat "$work/out")"
  [ "$(grep -c -E '^[0-9]+ samples/s' "$work/out")" = 1 ] || fail "not one rank printed: $(cat "$work/out")"
  python3 - "$work/run/metrics.jsonl" <<'PYTHON' || fail "metrics on $ranks ranks"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
steps = [line for line in lines if 'loss' in line]
assert [line['step'] for line in steps] == list(range(1, 21)), steps
assert all({'step', 'epoch', 'loss', 'rate', 'samples_per_second'} <= line.keys() for line in steps)
assert [(line['step'], line['epoch']) for line in lines if 'test_accuracy' in line] == [(10, 1), (20, 2)], lines
PYTHON
  grep -q '</svg>' "$work/run/loss.svg" || fail "no plot"
  cat "$work/out" >"$work/out$ranks"
done
[ "$(tail -n 1 "$work/out1")" = "$(tail -n 1 "$work/out2")" ] || fail "1 and 2 ranks have different weights"

# The same run, stopped in the middle of an epoch and continued, ends with the same weights.
options="--global-batch 32 --epochs 2 --dropout 0.2 --checkpoint $work/two"
run 2 $options --steps 7 && run 2 $options --resume || fail "a resumed run failed: $(cat "$work/err")"
[ "$(tail -n 2 "$work/out")" = "$(tail -n 2 "$work/out2")" ] || fail "a resumed run ended otherwise"
ls "$work/two" | tr '\n' ' ' | grep -q -x 'a b latest.json ' || fail "more in the checkpoint than two slots"

# A signal: the step is finished, the checkpoint saved, the exit status not zero.
timeout -s TERM 5 "$program" --model mlp --data "$data" --steps 1000000 --threads 1 --checkpoint "$work/signal" \
  >"$work/out" 2>"$work/err"
[ $? != 0 ] || fail "a stopped run ended with status 0"
grep -q 'stopped by a signal' "$work/out" || fail "a stopped run said nothing: $(cat "$work/out" "$work/err")"
grep -q '^test accuracy' "$work/out" && fail "a stopped run gave the accuracy of an earlier step: $(cat "$work/out")"
[ -f "$work/signal/latest.json" ] || fail "a stopped run saved nothing"

# signalled RANK SIGNAL: of two ranks that train, this one gets a signal. Leaves the job running as process $job.
cat >"$work/told" <<SCRIPT
#!/bin/sh
echo \$\$ >"$work/process\$OMPI_COMM_WORLD_RANK"
exec "$(realpath "$program")" "\$@"
SCRIPT
chmod +x "$work/told"
signalled() {
  rm -rf "$work/records" "$work/told.jsonl"
  CAPSTAN_TIMEOUT=50 CAPSTAN_FLIGHT_RECORDS="$work/records" timeout 60 "$mpirun" -np 2 "$work/told" --model mlp \
    --data "$data" --steps 1000000 --threads 1 --metrics "$work/told.jsonl" >"$work/out" 2>"$work/err" &
  job=$!
  until [ -s "$work/told.jsonl" ] || ! kill -0 $job 2>/dev/null; do sleep 0.05; done
  kill -s "$2" "$(cat "$work/process$1")"
}
record=$work/records/world-rank-0.json

# One rank is told to stop, and all do, after the same step; nothing is left of it.
signalled 1 TERM
wait $job && fail "a stopped run on two ranks ended with status 0"
grep -q 'stopped by a signal' "$work/out" || fail "a stopped run on two ranks said: $(cat "$work/out" "$work/err")"
[ -z "$(ls "$work/records" 2>/dev/null)" ] || fail "a run that stopped well left $(ls "$work/records")"

# One rank hangs, so that the other, told to stop, cannot: it leaves its flight record for whoever kills it.
signalled 1 STOP
sleep 0.5
kill -s TERM "$(cat "$work/process0")"
for _ in $(seq 100); do
  [ -s "$record" ] && break
  sleep 0.05
done
grep -q 'told to end (SIGTERM)' "$record" || fail "no flight record of a rank that was told to end and cannot"
kill -s KILL "$(cat "$work/process0")" "$(cat "$work/process1")"
wait $job

# One rank is killed: mpirun ends the other, which has time to say why.
signalled 1 KILL
wait $job && fail "a run with a killed rank ended with status 0"
grep -q '^train_image: .* cannot go on without rank 1 on .*, which has ended' "$work/err" ||
  fail "a run with a killed rank said: $(cat "$work/err")"
grep -q 'cannot go on without rank 1 on' "$record" || fail "no flight record of a run with a killed rank"

refuse "nowhere" --data "$work/nowhere"
refuse "train-images-idx3-ubyte.gz" --data "$work/cut"
refuse "train-images-idx3-ubyte" --data "$work/short"
refuse "labels must be in [0, 10), label 10 is 10" --data "$work/bad"
refuse "--rate must be above 0, got -1" --rate -1
refuse "--colour" --colour red
refuse "there is no checkpoint in $work/none" --checkpoint "$work/none" --resume
refuse "its model is mlp, this run's is lenet" --checkpoint "$work/run" --resume --model lenet
refuse "its optimizer is sgd, this run's is adamw" --checkpoint "$work/run" --resume --optimizer adamw
[ ! -e "$work/none" ] || fail "a refused run left files"

# Outputs that cannot be written, or that would overwrite each other, are refused before the first step.
refuse "cannot create /proc/loss.svg" --plot /proc/loss.svg
refuse "cannot write to /proc/metrics.jsonl" --metrics /proc/metrics.jsonl
refuse "cannot make the folder /proc/checkpoint" --checkpoint /proc/checkpoint
refuse "cannot make the folder $data/train-images-idx3-ubyte" --checkpoint "$data/train-images-idx3-ubyte"
refuse "cannot make $data/train-images-idx3-ubyte" --plot "$data/train-images-idx3-ubyte/loss.svg"
ln -s "$work" "$work/link"
conflict() { refuse "are in each other's way" --checkpoint "$work/none" "$@"; }
conflict --metrics "$work/x" --plot "$work/x"
conflict --metrics "$work/x" --plot "$work/run/../link/./x"
conflict --metrics "$work/none"
conflict --plot "$work/none/latest.json"
conflict --plot "$work/link/none/b/model.safetensors"
conflict --metrics "$work/x" --plot "$work/x/loss.svg"
[ ! -e "$work/none" ] && [ ! -e "$work/x" ] || fail "refused outputs left files"

cp -r "$work/run" "$work/broken"
for file in "$work"/broken/[ab]/model-*.safetensors; do truncate -s 1000 "$file"; done
refuse "model-00001-of-00002.safetensors is damaged" --checkpoint "$work/broken" --resume
cmp -s "$work/run/latest.json" "$work/broken/latest.json" || fail "a refused run changed the checkpoint"

# differ TEXT PREPARE: ranks 0 and 1, of which each first runs the shell code PREPARE, cannot agree and say TEXT.
differ() {
  cat >"$work/differ" <<SCRIPT
#!/bin/sh
$2
exec "$(realpath "$program")" --data "\${data:-$data}" --rate "\${rate:-0.1}" "\$@"
SCRIPT
  chmod +x "$work/differ"
  timeout 60 "$mpirun" -np 2 "$work/differ" --steps 3 --checkpoint "$work/none" >"$work/out" 2>"$work/err"
  local status=$?
  if [ $status = 0 ] || [ $status = 124 ]; then fail "ranks that differ ($2) ended with status $status"; fi
  grep '^train_image: ' "$work/err" | grep -q "$1" || fail "ranks that differ ($2) said: $(cat "$work/err")"
  [ ! -e "$work/none" ] || fail "ranks that differ ($2) left files"
}
differ 'options must be the same on all ranks: rank 0 .* has .*0.1.*, rank 1 .* has .*0.2' '[ $OMPI_COMM_WORLD_RANK = 0 ] || rate=0.2'
mkdir "$work/host0" "$work/host1"
ln -s "$data" "$work/host0/d"
ln -s "$work/other" "$work/host1/d"
differ 'data must be the same on all ranks' "cd $work/host\$OMPI_COMM_WORLD_RANK; data=d"

# Results that nobody can read are not a success.
timeout 60 "$program" --model mlp --threads 1 --data "$data" --steps 1 >/dev/full 2>"$work/err" &&
  fail "a run into a full device ended with status 0"
grep -q 'standard output' "$work/err" || fail "a run into a full device said: $(cat "$work/err")"

exit $failed
