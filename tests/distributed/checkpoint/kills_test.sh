#!/bin/bash
# kills_test.sh MPIRUN PROGRAM [KILLS]: kills jobs that save, at random moments, and loads what they leave: by another
# layout and on another number of ranks. Each load must be of a whole checkpoint, no older than the last one that was
# complete. The ranks are threads of a process that is killed; in every tenth job processes, of which one is.
exec python3 - "$(dirname "$1")/ranks.sh" "$2" "${3:-200}" <<'PYTHON'
import collections
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ranks_sh, program, kills = os.path.abspath(sys.argv[1]), os.path.realpath(sys.argv[2]), int(sys.argv[3])
choose = random.Random(1)
folder = tempfile.mkdtemp()
environment = {**os.environ, 'CAPSTAN_TIMEOUT': '5', 'CAPSTAN_FLIGHT_RECORDS': folder + '/records'}


def start(number, steps):
    """A job that loads and then saves; and whether its ranks are processes."""
    processes = number % 10 == 9
    command = [program, folder, str(number), '0' if processes else str(choose.randint(1, 4)), str(steps)]
    if processes:
        command = [ranks_sh, '-np', str(choose.randint(2, 3))] + command
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                           start_new_session=True)
    return job, processes


def ranks_of(job):
    """The processes of a job under ranks.sh."""
    with open(f'/proc/{job.pid}/task/{job.pid}/children') as file:
        return [pid for pid in map(int, file.read().split()) if os.readlink(f'/proc/{pid}/exe') == program]


def loaded(line, number):
    """The step in 'loaded N'; ends the test for anything else."""
    if not line.startswith('loaded '):
        sys.exit(f'load {number}: {line!r} instead of a checkpoint: see {folder}')
    return int(line.split()[1])


count, complete, longest = collections.Counter(), 0, 0
for number in range(kills + 1):
    job, processes = start(number, 10 ** 6 if number < kills else 1)
    line = job.stdout.readline() or job.stderr.read()
    step = loaded(line, number)
    if step < complete:
        sys.exit(f'load {number}: step {complete} was complete, and step {step} came back: see {folder}')
    count['loads'] += 1
    if number == kills:
        break
    time.sleep(choose.uniform(0, 0.3))
    if processes:
        os.kill(choose.choice(ranks_of(job)), signal.SIGKILL)
    else:
        job.kill()
    text = job.communicate(timeout=30)[0]
    count['of one rank of several' if processes else 'of all ranks'] += 1
    steps = [step] + [int(n) for n in re.findall(r'^saved (\d+)$', text, re.M)]
    complete = max(steps)
    count['steps'] += complete - step
    if glob.glob(folder + '/**/*.tmp', recursive=True):
        count['with a file half written'] += 1
    else:
        count['between files'] += 1
if job.wait(timeout=30) != 0:
    sys.exit('the last job failed: ' + job.stderr.read())
print(f"{kills} kills: {count['of all ranks']} of all ranks, {count['of one rank of several']} of one rank of several; "
      f"{count['with a file half written']} with a file half written, {count['between files']} between files")
print(f"{count['loads']} loads: none torn, none lost; {count['steps']} checkpoints were complete")
shutil.rmtree(folder)
PYTHON
