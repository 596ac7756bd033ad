#!/bin/sh
# Installs those packages of packages.txt that are missing. With none missing it needs neither root nor a network.
set -eu

missing=$(grep -v -e '^#' -e '^$' "$(dirname "$0")/packages.txt" | while read -r package; do
  dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -q -x installed || echo "$package"
done)
[ -n "$missing" ] || exit 0

echo "Installing:" $missing
if [ "$(id -u)" = 0 ]; then
  sudo=
elif command -v sudo >/dev/null; then
  sudo=sudo
else
  echo "Not root, and there is no sudo. As root, run: apt-get install" $missing >&2
  exit 1
fi
$sudo apt-get update -q
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
