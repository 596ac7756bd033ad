#!/bin/bash
# tools/netlab.sh: several hosts on this one machine, to try what runs across hosts and what their faults do.
#
#   netlab.sh up N COMMAND...       makes hosts h1 to hN on one switch, runs COMMAND beside them, takes all away again
#
# and within that COMMAND, or on a host:
#
#   netlab.sh run HOST COMMAND...   runs COMMAND on a host
#   netlab.sh ssh HOST WORDS...     the same as ssh does it: a shell there gets the words, not the environment
#   netlab.sh ps HOST               lists what runs on a host, a process a line: its number and its command
#   netlab.sh slow HOST RATE        limits the host's link, both ways, to a rate that tc knows (100mbit)
#   netlab.sh cut HOST              cuts the host off: what is sent is lost, and nobody is told
#   netlab.sh mend HOST             connects it again
#   netlab.sh kill HOST             kills all that runs on the host; its network still answers for it
#
# For example, four ranks on four hosts:
#
#   tools/netlab.sh up 4 tools/netlab.sh run h1 mpirun --host h1,h2,h3,h4 bazel-bin/models/readme_example
#
# A host is a network and a name of its own, with /dev/shm and TMPDIR of its own; the other files are this machine's,
# as if all hosts had mounted them. Its address is 10.77.0.NUMBER, known by its name. `up` runs all of it in namespaces
# that nobody else sees, so that labs do not meet; when COMMAND ends, or `up` is killed, the kernel ends every process
# of the lab, and the network goes with the last one. `up` ends with the status of COMMAND; with 77 and one line if
# this machine does not allow namespaces. Needs iproute2, and root or user namespaces. As mpirun takes ranks on a host
# for those of another machine, so does Capstan.
set -u
PATH=$PATH:/usr/sbin:/sbin  # of ip and tc
self=$(realpath "$0")

usage() {
  sed -n '/^#   netlab/s/^#   /  /p' "$self" >&2
  exit 2
}

die() {
  echo "netlab.sh: $1" >&2
  exit "${2:-1}"
}

forbidden() { die "this machine allows no hosts made of namespaces: $1" 77; }

on_network() { nsenter --net="$1" "${@:2}"; }   # FILE COMMAND...
on_switch() { on_network "$NETLAB/switch" "$@"; }  # the lab's own network; a host's port has the host's name

up() {
  if ! [[ ${1:-} =~ ^[1-9][0-9]?$ ]] || [ $# -lt 2 ]; then usage; fi
  local as_root=() problem child
  if ! problem=$(unshare --net true 2>&1); then
    as_root=(--user --map-root-user)
    unshare "${as_root[@]}" --net true 2>/dev/null || forbidden "$problem"
  fi
  NETLAB=$(mktemp -d /tmp/netlab.XXXXXX) || exit  # where the lab mounts what it needs; a short path, for sockets
  export NETLAB
  trap 'rmdir "$NETLAB"' EXIT
  # COMMAND's shell is process 1 of a process namespace: with it all processes of the lab end. It ends with unshare,
  # and that with this script.
  setpriv --pdeathsig KILL unshare "${as_root[@]}" --net --mount --pid --fork --kill-child --mount-proc \
    "$self" inside "$@" <&0 &
  child=$!
  trap 'kill -KILL $child; wait $child 2>/dev/null; exit 143' TERM INT HUP
  wait $child
}

inside() {
  local number=$1 host i problem
  shift
  mount -t tmpfs netlab "$NETLAB" || forbidden "no mounts"
  for ((i = 1; i <= number; ++i)); do echo "10.77.0.$i h$i"; done >"$NETLAB/hosts"
  { echo "127.0.0.1 localhost"; cat "$NETLAB/hosts"; } >"$NETLAB/etc_hosts"
  mount --bind "$NETLAB/etc_hosts" /etc/hosts || forbidden "no mounts"
  # A namespace lives as long as a file that it is mounted on.
  touch "$NETLAB/switch"
  mount --bind /proc/self/ns/net "$NETLAB/switch" || forbidden "no mounts"
  problem=$(ip link add switch type bridge 2>&1 && ip link set switch up 2>&1) || forbidden "no bridge: $problem"

  while read -r address host; do
    mkdir -p "$NETLAB/$host/tmp" "$NETLAB/$host/shm"
    touch "$NETLAB/$host/net" "$NETLAB/$host/uts"
    unshare --net="$NETLAB/$host/net" --uts="$NETLAB/$host/uts" hostname "$host" || forbidden "no namespaces"
    problem=$(ip link add "$host" type veth peer name eth0 netns "$NETLAB/$host/net" 2>&1) ||
      forbidden "no pair of virtual interfaces: $problem"
    ip link set "$host" master switch up
    on_network "$NETLAB/$host/net" sh -c "ip link set lo up; ip addr add $address/24 dev eth0; ip link set eth0 up"
  done <"$NETLAB/hosts"
  "$@"
}

run() {
  local host=$1
  shift
  # mpirun reaches the other hosts with our ssh; that it is root's is no harm here.
  export TMPDIR="$NETLAB/$host/tmp" OMPI_MCA_plm_rsh_agent="$self ssh"
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # shellcheck disable=SC2016 # the inner shell's own arguments
  exec nsenter --net="$NETLAB/$host/net" --uts="$NETLAB/$host/uts" unshare --mount \
    sh -c 'mount --bind "$0" /dev/shm && exec "$@"' "$NETLAB/$host/shm" "$@"
}

processes() {
  stat --dereference --format='%i %n' /proc/[0-9]*/ns/net 2>/dev/null |
    awk -F '[ /]' -v network="$(stat --format=%i "$NETLAB/$1/net")" '$1 == network { print $4 }'
}

command=${1:-}
shift
case $command in
  up) up "$@"; exit ;;
  inside) inside "$@"; exit ;;
  run | ssh | ps | slow | cut | mend | kill) ;;
  *) usage ;;
esac

[ -n "${NETLAB:-}" ] || die "$command works in a lab only: netlab.sh up N COMMAND..."
[ "$command" != ssh ] || [ "${1:-}" != -x ] || shift  # mpirun's ssh option: no X
host=${1:-}
[ -f "$NETLAB/$host/net" ] || die "there is no host '$host', only: $(awk '{ print $2 }' "$NETLAB/hosts" | xargs)"
shift
case $command in
  run) [ $# -gt 0 ] || usage; run "$host" "$@" ;;
  ssh) exec env -i HOME="${HOME:-/}" PATH="$PATH" NETLAB="$NETLAB" "$self" run "$host" sh -c "$*" ;;
  ps) for number in $(processes "$host"); do echo "$number $(tr '\0' ' ' <"/proc/$number/cmdline")"; done 2>/dev/null ;;
  slow)
    [ $# = 1 ] || usage
    shape=(root tbf rate "$1" burst 256kb latency 100ms)
    on_switch tc qdisc replace dev "$host" "${shape[@]}" &&
      on_network "$NETLAB/$host/net" tc qdisc replace dev eth0 "${shape[@]}" ;;
  cut) on_switch ip link set "$host" nomaster ;;
  mend) on_switch ip link set "$host" master switch ;;
  kill)
    while found=$(processes "$host") && [ -n "$found" ]; do
      # shellcheck disable=SC2086 # several numbers, of which some may have ended meanwhile
      kill -KILL $found 2>/dev/null || :
    done ;;
esac
