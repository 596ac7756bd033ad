#!/bin/sh
# tools/format.sh: gives every C++ and CUDA source the layout of .clang-format. With --check it changes nothing, and
# fails with the places that differ.
set -eu
cd "$(dirname "$0")/.."

case ${1:-} in
  '') action='-i' ;;
  --check) action='--dry-run -Werror' ;;
  *) echo "usage: tools/format.sh [--check]" >&2; exit 2 ;;
esac
# Version 14 is Debian 12's; another one would break lines elsewhere.
find . \( -name '.?*' -o -name 'bazel-*' \) -prune -o \
  -type f \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 clang-format-14 --style=file $action
