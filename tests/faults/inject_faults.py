#!/usr/bin/env python3
"""Injects faults into running jobs, at random moments, and prints what became of each kind.

    bazel build //tests/faults:faults_program
    tests/faults/inject_faults.py bazel-bin/tests/faults/faults_program --faults 100 --timeout 10 --table results.tsv

A job makes one collective after the other, until something befalls one of its 2 to 5 ranks:

    from outside  it is killed, it is stopped, its link to another rank is cut (without MPI, and where `ss -K` may),
                  it is killed or stopped while the job starts, or stopped in a job that makes communicators
    by itself     it throws, makes another call, reduces another shape or dtype, by another algorithm, makes a Ddp with
                  another hook, leaves the loop, or exits

From then on every process of the job must end within CAPSTAN_TIMEOUT and 5 seconds (while it starts that is at least
10 and 5), with a status that is not 0 and one text that names the rank and its host, and the call if there was one.
(Hosts that are cut off or killed: tests/hosts.)

One line a fault goes to standard error, and to the table. The exit status is 0 only if all became such errors.
"""
import argparse
import collections
import itertools
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools')

AT_START = ('kill early', 'stop early')
SPLITTING = 'stop splits'
FROM_OUTSIDE = ('kill', 'stop', 'cut', SPLITTING) + AT_START
BY_ITSELF = ('throw', 'call', 'shape', 'dtype', 'algorithm', 'hook', 'leave', 'exit')

Result = collections.namedtuple('Result', 'kind launcher ranks rank seconds status named text')


def processes_of(program, parent):
    """The ranks of one job, processes of the program below `parent`: their process numbers by rank."""
    children = collections.defaultdict(list)
    names = {}
    for entry in os.listdir('/proc'):
        if not entry.isdigit():
            continue
        try:
            with open(f'/proc/{entry}/stat') as file:
                fields = file.read().rsplit(')', 1)[1].split()
            if fields[0] == 'Z':
                continue
            names[int(entry)] = os.readlink(f'/proc/{entry}/exe')
            children[int(fields[1])].append(int(entry))
        except OSError:
            pass
    below, found = [parent], {}
    while below:
        process = below.pop()
        below.extend(children[process])
        if names.get(process) == program:
            try:
                with open(f'/proc/{process}/environ') as file:
                    rank = re.search(r'(?:^|\0)(?:OMPI_COMM_WORLD_)?RANK=(\d+)', file.read())
                found[int(rank.group(1))] = process
            except (OSError, AttributeError):
                pass
    return found


def connections(one, other):
    """The TCP connections between two processes: pairs of ports."""
    ends = collections.defaultdict(set)
    for line in subprocess.run(['ss', '-tnpH', 'state', 'established'], capture_output=True, text=True).stdout.splitlines():
        ports = re.findall(r':(\d+)\s', line)
        for process in re.findall(r'pid=(\d+)', line):
            ends[int(process)].add((ports[0], ports[1]))
    return {(a, b) for a, b in ends[one] if (b, a) in ends[other]}


def cut(one, other):
    """Cuts the link between two processes on this machine. False if that cannot be done here."""
    links = connections(one, other)
    if not links:
        return False
    ends = ' or '.join(f'( sport = :{a} and dport = :{b} )' for a, b in links)
    subprocess.run(['ss', '-K', *ends.split()], capture_output=True)
    return not connections(one, other)


def can_cut():
    """Tries it on a connection of this process."""
    try:
        with socket.create_server(('127.0.0.1', 0)) as server, socket.create_connection(server.getsockname()) as one:
            port = server.getsockname()[1]
            subprocess.run(['ss', '-K', 'dport', '=', f':{port}'], capture_output=True)
            one.setblocking(False)
            return one.recv(1) == b''
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    except OSError:
        return False


class Job:
    def __init__(self, launcher, program, ranks, arguments, timeout):
        self.program, self.ranks = program, ranks
        self.output = tempfile.TemporaryFile('w+')
        self.process = subprocess.Popen([launcher, '-np', str(ranks), program, *arguments], stdout=self.output,
                                        stderr=subprocess.STDOUT, start_new_session=True,
                                        env={**os.environ, 'CAPSTAN_TIMEOUT': str(timeout)})

    def text(self):
        self.output.seek(0)
        return self.output.read()

    def processes(self):
        return processes_of(self.program, self.process.pid)

    def ended(self):
        return self.process.poll() is not None

    def wait_until(self, condition):
        while not condition() and not self.ended():
            time.sleep(0.02)

    def end(self, limit):
        """Seconds until all of it has ended, from now; None: it had to be killed after `limit`."""
        begin = time.monotonic()
        try:
            self.process.wait(limit)
            return time.monotonic() - begin
        except subprocess.TimeoutExpired:
            ranks = self.processes().values()
            os.killpg(self.process.pid, signal.SIGKILL)
            for process in ranks:
                os.kill(process, signal.SIGKILL)
            self.process.wait()
            return None


def befall(job, kind, rank, other, delay):
    """Lets a fault come from outside. Returns whether it came."""
    if kind in AT_START:
        job.wait_until(lambda: len(job.processes()) == job.ranks)
        time.sleep(delay / 5)
    else:
        job.wait_until(lambda: 'running' in job.text())
        time.sleep(delay)
    processes = job.processes()
    if len(processes) != job.ranks:
        return False
    if kind == 'cut':
        return cut(processes[rank], processes[other])
    os.kill(processes[rank], signal.SIGKILL if kind.startswith('kill') else signal.SIGSTOP)
    return True


def run(launcher, program, kind, ranks, rank, step, delay, timeout):
    """One job with one fault."""
    outside = kind in FROM_OUTSIDE
    other = (rank + 1) % ranks
    errand = ['splits' if kind == SPLITTING else 'none', '0', '0'] if outside else [kind, str(rank), str(step)]
    job = Job(launcher, program, ranks, errand, timeout)
    limit = (max(timeout, 10) if kind in AT_START else timeout) + 5
    if outside:
        came = befall(job, kind, rank, other, delay)
        seconds = job.end(limit)
    else:
        job.wait_until(lambda: 'fault at' in job.text())
        seconds = job.end(limit)
        at = re.search(r'^fault at (\S+)$', job.text(), re.M)
        came = bool(at)
        if at and seconds is not None:
            seconds = time.monotonic() - float(at.group(1))
    text = job.text() if came else 'the fault could not be injected\n' + job.text()
    named = came and names_the_fault(kind, rank, other, ranks, text)
    return Result(kind, os.path.basename(launcher), ranks, rank, seconds, job.process.returncode, named, text)


def ours(text):
    """What the job says of itself; ranks that say the same count once."""
    return sorted(set(re.findall(r'^faults_program: (.*)$', text, re.M)))


def names_the_fault(kind, rank, other, ranks, text):
    lines = ours(text)
    if kind in AT_START:  # ranks that have not met may know nothing of each other; then mpirun speaks
        return bool(re.search(r'rank \d+|\[(world|tcp)\] ', ' '.join(lines) or text)) or 'exited on signal 9' in text
    if kind == 'cut' and ranks == 2:  # each of the two can but name the other
        return bool(lines) and all(re.search(r'rank \d+ on \S+', line) for line in lines)
    if len(lines) != 1:
        return False
    culprit = fr'rank {other if kind == "cut" and f"rank {rank} on" not in lines[0] else rank} on \S+'
    place = r'call \d+ \w+|options of Ddp'
    # In a list of ranks the culprit's number stands without the word.
    return bool(re.search(culprit, lines[0]) and re.search(place, lines[0]))


def kind_and_launcher(result):
    return result.kind, result.launcher


def print_table(results):
    print(f'{"fault":11} {"launcher":10} {"injected":>8} {"named":>6} {"hung":>5} {"status 0":>9} {"longest":>8}')
    for (kind, launcher), group in itertools.groupby(sorted(results, key=kind_and_launcher), kind_and_launcher):
        group = list(group)
        longest = max((r.seconds for r in group if r.seconds is not None), default=0)
        print(f'{kind:11} {launcher:10} {len(group):8} {sum(r.named for r in group):6} '
              f'{sum(r.seconds is None for r in group):5} {sum(r.status == 0 for r in group):9} {longest:6.1f} s')


def write_table(path, results):
    with open(path, 'w') as file:
        print('fault', 'launcher', 'ranks', 'culprit', 'seconds to end', 'status', 'named', 'text', sep='\t', file=file)
        for r in results:
            line = (ours(r.text) or ['(only the launcher speaks)'])[0]
            print(r.kind, r.launcher, r.ranks, r.rank, 'hung' if r.seconds is None else f'{r.seconds:.1f}', r.status,
                  'yes' if r.named else 'no', line.replace(' on ' + os.uname().nodename, ' on HOST'),
                  sep='\t', file=file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', help='the built faults_program')
    parser.add_argument('--launchers', nargs='+', help='what starts the jobs, in turns; tools/mpirun.sh, tools/ranks.sh',
                        default=[os.path.join(TOOLS, 'mpirun.sh'), os.path.join(TOOLS, 'ranks.sh')])
    parser.add_argument('--faults', type=int, help='how many; one of each kind for each launcher if not given')
    parser.add_argument('--kinds', nargs='+', default=FROM_OUTSIDE + BY_ITSELF, choices=FROM_OUTSIDE + BY_ITSELF)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--timeout', type=float, default=2, help='CAPSTAN_TIMEOUT of the jobs, in seconds')
    parser.add_argument('--table', help='a file for a line about each fault')
    options = parser.parse_args()
    program = os.path.realpath(options.program)
    os.environ['CAPSTAN_FLIGHT_RECORDS'] = ''
    choose = random.Random(options.seed)

    cuts = can_cut()
    if not cuts:
        print('skipped: links that are cut, which needs root and `ss -K`')
    pairs = [(kind, launcher) for kind in options.kinds for launcher in options.launchers
             if kind != 'cut' or (cuts and os.path.basename(launcher) == 'ranks.sh')]
    results = []
    for number, (kind, launcher) in enumerate(itertools.islice(itertools.cycle(pairs), options.faults or len(pairs))):
        ranks = choose.randint(2, 5)
        result = run(launcher, program, kind, ranks, choose.randrange(ranks), choose.randint(1, 300),
                     choose.uniform(0, 1.5), options.timeout)
        results.append(result)
        seconds = 'HUNG' if result.seconds is None else f'{result.seconds:.1f} s'
        print(f'{number + 1:4} {kind:10} {result.launcher:9} rank {result.rank} of {ranks}: {seconds}, status '
              f'{result.status}: {(ours(result.text) or ["(only the launcher speaks)"])[0][:200]}', file=sys.stderr)
        if result.seconds is None or result.status == 0 or not result.named:
            print('NOT AS IT SHOULD BE:\n' + result.text, file=sys.stderr)
    print_table(results)
    if options.table:
        write_table(options.table, results)
    return 0 if all(r.seconds is not None and r.status != 0 and r.named for r in results) else 1


if __name__ == '__main__':
    sys.exit(main())
