#!/bin/bash
# capstan_test.sh MPIRUN PROGRAM: looking at, checking and joining a checkpoint, which is made here, in Python, after the
# words of distributed/checkpoint/manifest.h.
set -u
program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
  echo "$1"
  failed=1
}

python3 - "$work" <<'PYTHON'
import hashlib, json, os, struct, sys
folder = sys.argv[1] + '/run'
os.makedirs(folder + '/a')
files = {}
def write(name, key, shape, values):
    header = json.dumps({key: {'dtype': 'F32', 'shape': shape, 'data_offsets': [0, 4 * len(values)]}}).encode()
    data = struct.pack('<Q', len(header)) + header + struct.pack(f'<{len(values)}f', *values)
    open(f'{folder}/a/{name}', 'wb').write(data)
    files[name] = {'bytes': len(data), 'sha256': hashlib.sha256(data).hexdigest()}
def piece(file, key, start, shape, begin, end):
    return {'file': file, 'key': key, 'start': start, 'shape': shape, 'begin': begin, 'end': end}
model = [f'model-0000{rank}-of-00002.safetensors' for rank in range(2)]
write(model[0], 'w [0:2, 0:2]', [2, 2], [0, 1, 3, 4])
write(model[1], 'w [0:2, 2:3]', [2, 1], [2, 5])
write('optimizer-00000-of-00002.safetensors', 'w.m', [2, 3], [9] * 6)
manifest = {'format': 3, 'slot': 'a', 'ranks': 2, 'run': {'model': 'made by hand', 'step': '12'}, 'files': files,
            'tensors': {'model': {'w': {'dtype': 'float32', 'shape': [2, 3], 'pieces': [
                            piece(model[0], 'w [0:2, 0:2]', [0, 0], [2, 2], 0, 4),
                            piece(model[1], 'w [0:2, 2:3]', [0, 2], [2, 1], 0, 2)]}},
                        'optimizer': {'w.m': {'dtype': 'float32', 'shape': [2, 3], 'pieces': [
                            piece('optimizer-00000-of-00002.safetensors', 'w.m', [0, 0], [2, 3], 0, 6)]}}}}
text = json.dumps(manifest, sort_keys=True, separators=(',', ':'))
manifest['manifest_sha256'] = hashlib.sha256(text.encode()).hexdigest()
json.dump(manifest, open(folder + '/latest.json', 'w'))
PYTHON

"$program" checkpoint inspect "$work/run" >"$work/out" || fail "inspect failed"
for line in 'saved by 2 ranks, in slot a' '  model  made by hand' '  w       float32  [2, 3]       2     24' \
  'optimizer: 1 tensor, 24 bytes'; do
  grep -q -x -F -e "$line" "$work/out" || fail "inspect has no line '$line': $(cat "$work/out")"
done

"$program" checkpoint verify "$work/run" >"$work/out" || fail "verify found faults: $(cat "$work/out")"
grep -q -x '2 tensors in 3 files: all as they were saved' "$work/out" || fail "verify said: $(cat "$work/out")"

# joined FILE NAME...: FILE holds these tensors, and w is 0 to 5.
joined() {
  python3 - "$@" <<'PYTHON' || fail "$1 is not the model"
import json, struct, sys
data = open(sys.argv[1], 'rb').read()
length = struct.unpack('<Q', data[:8])[0]
header = json.loads(data[8:8 + length])
assert header.pop('__metadata__') == {'model': 'made by hand', 'step': '12'}
assert sorted(header) == sorted(sys.argv[2:]), header
begin, end = header['w']['data_offsets']
assert header['w']['shape'] == [2, 3]
assert struct.unpack('<6f', data[8 + length + begin:8 + length + end]) == (0, 1, 2, 3, 4, 5)
PYTHON
}
"$program" checkpoint consolidate "$work/run" "$work/model" || fail "consolidate failed"
joined "$work/model" w
"$program" checkpoint consolidate "$work/run" "$work/both" --optimizer || fail "consolidate --optimizer failed"
joined "$work/both" w w.m

# refuse TEXT ARGUMENTS...: ends with a status that is not 0, and says TEXT.
refuse() {
  local text=$1
  shift
  "$program" "$@" >"$work/out" 2>&1 && fail "$* ended with status 0"
  grep -q -F -e "$text" "$work/out" || fail "$*: expected '$text', got: $(cat "$work/out")"
}
refuse 'subcommand is required'
refuse 'subcommand is required' checkpoint
refuse 'folder is required' checkpoint inspect
refuse 'there is no checkpoint in' checkpoint inspect "$work"
refuse 'there is no checkpoint in' checkpoint verify "$work"
refuse 'cannot create' checkpoint consolidate "$work/run" "$work/none/model"
rm "$work/run/a/model-00001-of-00002.safetensors"
truncate -s 100 "$work/run/a/optimizer-00000-of-00002.safetensors"
refuse 'model-00001-of-00002.safetensors is missing' checkpoint verify "$work/run"
grep -q 'optimizer-00000-of-00002.safetensors is damaged' "$work/out" || fail "verify said: $(cat "$work/out")"
refuse 'model-00001-of-00002.safetensors is missing' checkpoint consolidate "$work/run" "$work/other"
[ ! -e "$work/other" ] || fail "a refused consolidate left a file"
"$program" checkpoint inspect "$work/run" >/dev/full 2>"$work/out" && fail "inspect into a full device ended with status 0"

exit $failed
