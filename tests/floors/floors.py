"""The rules for #include in Capstan's sources, and a function that finds what breaks them.

1. Includes point downwards: a file may include its own floor and those that FLOORS lists for it.
2. Public headers are thin: they include C++'s standard headers and other public headers, nothing else. So no
   Eigen, MPI, CUDA or formatting header reaches a program that includes "capstan.h".
"""

import re

# floor -> the floors below that it may include; the root folder holds "capstan.h".
FLOORS = {
    "core": [],
    "autograd": ["core"],
    "nn": ["core", "autograd"],
    "optim": ["core", "autograd"],
    "data": ["core"],
    "distributed/comm": ["core"],
    "distributed/checkpoint": ["core", "distributed/comm"],
    "distributed/mesh": ["core", "distributed/comm"],
}
# The last ones may include all floors above them in this list.
for last in [
    "distributed",
    "distributed/context_parallel",
    "distributed/expert_parallel",
    "distributed/fsdp",
    "distributed/pipeline",
    "distributed/tensor_parallel",
    "",
    "models",
]:
    FLOORS[last] = list(FLOORS)

# Headers for the .cc files of the framework only, which may include anything.
INTERNAL = re.compile(r"core/(cpu|cuda|meta)/|core/raise\.h$")

_INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def floor_of(path):
    """'distributed/comm/ring.h' -> 'distributed/comm', 'core/cpu/loop.h' -> 'core', 'capstan.h' -> ''.

    None for a path outside the house, such as 'mpi.h' between quotes or 'fmt/core.h'.
    """
    if path == "capstan.h":
        return ""
    fitting = [floor for floor in FLOORS if floor and path.startswith(floor + "/")]
    return max(fitting, key=len, default=None)


def is_public(path):
    return path.endswith(".h") and not INTERNAL.match(path)


def _fault(path, quote, included):
    """What is wrong with this include in this file; None if nothing is."""
    if quote == "<":
        if is_public(path) and not re.fullmatch(r"[a-z_0-9]+", included):
            return f"a public header includes <{included}>; only C++'s standard headers are allowed"
        return None
    here, there = floor_of(path), floor_of(included)
    if there is None:
        return f'"{included}" is no path in the workspace; a header from elsewhere goes between < and >'
    if there != here and there not in FLOORS[here]:
        return f'floor "{here}" includes "{included}" of floor "{there}", which is not below it'
    if is_public(path) and INTERNAL.match(included):
        return f'a public header includes "{included}", which is internal'
    return None


def violations(path, text):
    """The broken rules in one file, each as 'path:line: what is wrong'."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        include = _INCLUDE.match(line)
        fault = include and _fault(path, *include.groups())
        if fault:
            found.append(f"{path}:{number}: {fault}")
    return found
