#!/bin/sh
# ./quickstart.sh: installs what is missing, builds, and trains LeNet on Fashion-MNIST with DDP, one rank a core. The
# checkpoint, the metrics of each step and a picture of the loss are in runs/quickstart afterwards.
set -eu
cd "$(dirname "$0")"

tools/install_packages.sh
bazel build //models:train_image

# The batch of one step is fixed, so the weights are the same to the last bit on 1, 2, 4, 8 or 16 cores.
run=runs/quickstart
tools/mpirun.sh -np "$(nproc)" bazel-bin/models/train_image --model lenet --epochs 5 --global-batch 128 --rate 0.05 \
  --checkpoint $run --metrics $run/metrics.jsonl --plot $run/loss.svg "$@"
