#!/usr/bin/env python3
"""Injects faults into running jobs, at random moments, and prints what became of each kind.

    bazel build //tests/faults:faults_program
    tests/faults/inject_faults.py bazel-bin/tests/faults/faults_program --faults 100
    tests/faults/inject_faults.py bazel-bin/tests/faults/faults_program --mpirun tools/ranks.sh --patience 10

Every job must end on every rank within CAPSTAN_TIMEOUT and 5 seconds (within 15 while it starts), with a status that is
not 0 and a line that names the rank or the call. A job makes one collective after the other, until one of its 2 to 5
ranks is killed or stopped from outside (kill, stop; also while it starts), or throws, makes another call, reduces
another shape, leaves the loop, or exits. (Hosts that are cut off or killed: tests/hosts.)

One line a fault goes to standard error. The exit status is 0 only if every fault became a named error in time.
"""
import argparse
import collections
import os
import random
import re
import signal
import subprocess
import sys
import time

MPIRUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools', 'mpirun.sh')

FROM_INSIDE = ('throw', 'call', 'shape', 'leave', 'exit')
FROM_OUTSIDE = ('kill', 'stop')


def processes_of(program, parent):
    """The ranks of one job: processes of the program below `parent`."""
    children = collections.defaultdict(list)
    names = {}
    for entry in os.listdir('/proc'):
        if not entry.isdigit():
            continue
        try:
            with open(f'/proc/{entry}/stat') as file:
                fields = file.read().rsplit(')', 1)[1].split()
            names[int(entry)] = os.readlink(f'/proc/{entry}/exe')
            children[int(fields[1])].append(int(entry))
        except OSError:
            pass
    below, found = [parent], []
    while below:
        process = below.pop()
        below.extend(children[process])
        if names.get(process) == program:
            found.append(process)
    return sorted(found)


def run(mpirun, program, kind, ranks, rank, step, delay, timeout, patience):
    """One job with one fault. Returns seconds from the fault to the end, the status, and the text."""
    inside = kind in FROM_INSIDE
    command = [mpirun, '-np', str(ranks), program]
    command += [kind, str(rank), str(step)] if inside else ['none', '0', '0']
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env={**os.environ, 'CAPSTAN_TIMEOUT': str(timeout)}, start_new_session=True)
    begin = time.monotonic()
    if not inside:
        while len(processes_of(program, job.pid)) < ranks and job.poll() is None:
            time.sleep(0.02)
        time.sleep(delay)
        begin = time.monotonic()
        victims = processes_of(program, job.pid)
        if rank < len(victims):
            os.kill(victims[rank], signal.SIGKILL if kind == 'kill' else signal.SIGSTOP)
    # A fault from inside comes some time after the start; one from outside may strike a job that has not started, for
    # which 10 s are the least limit.
    limit = max(timeout, 10) + patience
    try:
        text, _ = job.communicate(timeout=limit)
        return time.monotonic() - begin, job.returncode, text
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        for process in processes_of(program, job.pid):
            os.kill(process, signal.SIGKILL)
        text, _ = job.communicate()
        return None, job.returncode, text


def names_the_fault(kind, text):
    ours = re.search(r'^faults_program: (.*)$', text, re.M)
    if kind in ('kill', 'exit'):  # mpirun sees a process end before its peers can say anything
        return bool(re.search(r'rank \d+', ours.group(1) if ours else text)) or 'exited on signal 9' in text or \
            'non-zero status' in text
    return bool(ours and re.search(r'rank \d+|\[(world|split|tcp|MPI_Finalize)\] ', ours.group(1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', help='the built faults_program')
    parser.add_argument('--mpirun', default=MPIRUN)
    parser.add_argument('--faults', type=int, default=100)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--patience', type=float, default=5, help='seconds that a job may take beyond its limit')
    parser.add_argument('--timeout', type=float, default=2, help='CAPSTAN_TIMEOUT of the jobs, in seconds')
    options = parser.parse_args()
    program = os.path.realpath(options.program)
    choose = random.Random(options.seed)

    table = collections.OrderedDict((kind, []) for kind in FROM_OUTSIDE + FROM_INSIDE)
    for number in range(options.faults):
        kind = list(table)[number % len(table)]
        ranks = choose.randint(2, 5)
        rank, step = choose.randrange(ranks), choose.randint(1, 300)
        delay = choose.uniform(0, 1.5)
        seconds, status, text = run(options.mpirun, program, kind, ranks, rank, step, delay, options.timeout,
                                    options.patience)
        named = names_the_fault(kind, text)
        good = seconds is not None and status != 0 and named
        table[kind].append((seconds, status, named))
        line = next((line for line in text.splitlines() if line.startswith('faults_program: ')), '(only mpirun speaks)')
        print(f'{number + 1:4} {kind:6} rank {rank} of {ranks}: '
              f'{"HUNG" if seconds is None else f"{seconds:.1f} s"}, status {status}: {line[:150]}', file=sys.stderr)
        if not good:
            print(text, file=sys.stderr)

    print(f'{"fault":8} {"injected":>8} {"named":>6} {"hung":>5} {"status 0":>9} {"longest":>8}')
    bad = 0
    for kind, results in table.items():
        times = [seconds for seconds, _, _ in results if seconds is not None]
        hung = sum(seconds is None for seconds, _, _ in results)
        named = sum(named for _, _, named in results)
        zero = sum(status == 0 for _, status, _ in results)
        bad += hung + zero + len(results) - named
        print(f'{kind:8} {len(results):8} {named:6} {hung:5} {zero:9} {max(times, default=0):6.1f} s')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
