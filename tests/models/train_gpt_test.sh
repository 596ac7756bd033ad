#!/bin/bash
# train_gpt_test.sh MPIRUN PROGRAM: what the program prints and writes, alone and under mpirun, and what it says to bad
# input: one line on standard error and a non-zero exit. What all trainers share is tested in train_image_test.sh.
. "$(dirname "$0")/trainer.sh"

# A text, another one, a short one; a tokenizer that knows "the "; tokens of it, and one beyond its vocabulary.
python3 - "$work" <<'PYTHON'
import json, random, struct, sys
folder = sys.argv[1]
random.seed(1)
words = ["capstan ", "rope ", "anchor ", "sail ", "and ", "the ", "turn ", "haul ", "wind.\n"]
for name, size in ("text", 4000), ("other", 4000), ("short", 20):
    open(f"{folder}/{name}", "w").write("".join(random.choice(words) for _ in range(size)))
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
hidden = [byte for byte in range(256) if byte not in printable]
letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
vocabulary = {letters[byte]: byte for byte in range(256)} | {"th": 256, "the": 257}
json.dump({"model": {"type": "BPE", "vocab": vocabulary, "merges": ["t h", "th e"]},
           "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}}, open(f"{folder}/tokenizer.json", "w"))
for name, last in ("tokens", 257), ("foreign", 258):
    open(f"{folder}/{name}", "wb").write(struct.pack("<3000H", *([257, 32] * 1499), 257, last))
PYTHON

usual=(--layers 1 --heads 2 --width 16 --context 16 --text "$work/text" --rate 0.01 --progress none)

# The same weights and the same sample on 1, 2 and 4 ranks.
for ranks in 1 2 4; do
  run $ranks --steps 30 --global-batch 32 --dropout 0.1 --sample 40 --prompt "the rope" --checkpoint "$work/run$ranks" \
    --metrics "$work/run$ranks/metrics.jsonl" --plot "$work/run$ranks/loss.svg" ||
    fail "a good run on $ranks ranks failed: $(cat "$work/err")"
  grep -q '^the rope' "$work/out" || fail "no sample: $(cat "$work/out")"
  grep -q -E '^[0-9]+ tokens/s' "$work/out" || fail "no tokens/s: $(cat "$work/out")"
  tail -n 2 "$work/out" | head -n 1 | grep -q -E '^validation loss [0-9.]+ nats, [0-9.]+ bits per byte$' ||
    fail "no validation loss: $(cat "$work/out")"
  tail -n 1 "$work/out" | grep -q -E '^weights sha256 [0-9a-f]{64}$' || fail "no sha256: $(cat "$work/out")"
  grep -q '</svg>' "$work/run$ranks/loss.svg" || fail "no plot"
  [ "$(grep -c '"loss"' "$work/run$ranks/metrics.jsonl")" = 30 ] || fail "not 30 steps in the metrics"
  sed -n '/^the rope/,/tokens\/s/p' "$work/out" | grep -v tokens/s >"$work/sample$ranks"
  tail -n 1 "$work/out" >"$work/sum$ranks"
done
for ranks in 2 4; do
  cmp "$work/sum1" "$work/sum$ranks" || fail "1 and $ranks ranks have different weights"
  cmp "$work/sample1" "$work/sample$ranks" || fail "1 and $ranks ranks write differently"
done

# The same under mpirun where ranks share out the model: states, gradients and weights, layers, and both.
for layout in "2 --zero 2" "4 --zero 3" "2 --pipeline 2" "4 --pipeline 2 --zero 1 --schedule zb-h1"; do
  run $layout --steps 30 --global-batch 32 --dropout 0.1 --sample 40 --prompt "the rope" ||
    fail "a run on $layout failed: $(cat "$work/err")"
  tail -n 1 "$work/out" | cmp - "$work/sum1" || fail "1 and $layout have different weights"
  sed -n '/^the rope/,/tokens\/s/p' "$work/out" | grep -v tokens/s | cmp - "$work/sample1" ||
    fail "1 and $layout write differently"
done
run 4 --pipeline 2 --tensor 2 --steps 3 --sample 5 || fail "a run of stages and slices failed: $(cat "$work/err")"
grep -q '2 stages (1f1b) x 1 part of the data x 2 ranks a layer' "$work/out" || fail "no layout: $(cat "$work/out")"

# Ranks that share layers or sequences: the same losses, but for rounding.
losses() {
  grep '"loss"' "$1" | sed 's/.*"loss": *\([0-9.e-]*\).*/\1/'
}
for layout in "2 --tensor 2" "2 --tensor 2 --sequence-parallel" "2 --context-parallel 2" "3 --context-parallel 3" \
  "4 --context-parallel 2 --zero 3" "6 --context-parallel 3" "8 --context-parallel 2 --tensor 2"; do
  set -- $layout
  shape="--context 48 --steps 10 --global-batch 24 --reproducible 8 --dropout 0.1 --dtype float64"
  [ -f "$work/losses" ] || { run 1 $shape --metrics "$work/metrics1" && losses "$work/metrics1" >"$work/losses"; } ||
    fail "a run of longer samples failed: $(cat "$work/err")"
  run "$@" $shape --metrics "$work/metrics2" || fail "a run on $layout failed: $(cat "$work/err")"
  losses "$work/metrics2" | paste "$work/losses" - |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d < 1e-9)) bad = 1; n++ } END { exit bad || n != 10 }' ||
    fail "1 and $layout have different losses: $(losses "$work/metrics2" | paste "$work/losses" -)"
done

# A run that is stopped goes on, on other ranks, and ends with the same weights.
options="--global-batch 32 --dropout 0.1 --checkpoint $work/two"
run 2 $options --steps 11 && run 1 $options --steps 30 --resume || fail "a resumed run failed: $(cat "$work/err")"
tail -n 1 "$work/out" | cmp - "$work/sum1" || fail "a resumed run ended otherwise"

# A tokenizer's tokens, and a model of the other kind.
run 2 --tokenizer "$work/tokenizer.json" --steps 2 --sample 5 --rotary --rms-norm --swiglu --groups 1 --quiet ||
  fail "a run with a tokenizer failed: $(cat "$work/err")"

refuse "nowhere" --text "$work/nowhere"
refuse "must be more than --context 16" --text "$work/short"
refuse "there are" --pipeline 3
refuse "there are" --context-parallel 3 --context 18
refuse "must divide --context, got 4 and 18" --context-parallel 2 --context 18
refuse "--tensor must be in [1, " --tensor 0
refuse "--heads must divide --width, got 3 and 16" --heads 3
refuse "nowhere.json" --tokenizer "$work/nowhere.json"
refuse "text: is no JSON" --tokenizer "$work/text"
refuse "its model is gpt of 1 layers" --checkpoint "$work/run1" --resume --width 32
refuse "vocabulary 256, this run's is gpt" --checkpoint "$work/run1" --resume --tokenizer "$work/tokenizer.json"
refuse "excludes" --tokens "$work/tokens"
refuse "--temperature must be 0 or more" --temperature -1

# Files of tokens, without --text.
tokens() {
  timeout 60 "$program" --threads 1 --layers 1 --heads 2 --width 16 --context 16 --steps 2 --progress none --tokens "$@" \
    >"$work/out" 2>"$work/err"
}
tokens "$work/tokens" --tokenizer "$work/tokenizer.json" || fail "a run on tokens failed: $(cat "$work/err")"
tokens "$work/foreign" --tokenizer "$work/tokenizer.json" && fail "tokens of another vocabulary were taken"
grep -q "tokens must be below 258, token 2999 is 258" "$work/err" || fail "foreign tokens: $(cat "$work/err")"

# Ranks that have different texts.
cat >"$work/differ" <<SCRIPT
#!/bin/sh
[ "\$OMPI_COMM_WORLD_RANK" = 0 ] && text=text || text=other
exec "$(realpath "$program")" --threads 1 --steps 1 --text "$work/\$text"
SCRIPT
chmod +x "$work/differ"
timeout 60 "$mpirun" -np 2 "$work/differ" >"$work/out" 2>"$work/err" && fail "ranks with different texts went on"
grep -q '^train_gpt: .*data must be the same on all ranks' "$work/err" || fail "different texts: $(cat "$work/err")"

exit $failed
