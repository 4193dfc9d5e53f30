"""Runs tests against mutants: first each test alone, to learn which mutants it reaches, then for each mutant the tests that
reach it, those first that are quick and have caught others of the file, until one fails."""

import collections
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# A mutant may loop, or fill memory or a disk. So a test gets ten times its time without a mutant, plus these seconds,
# and at most these bytes of memory and of each file.
LEAST_SECONDS = 20
MEMORY_MAX = 4 << 30
FILE_MAX = 1 << 30


@dataclass(frozen=True)
class Test:
    folder: str
    program: str
    name: str

    def run(self, variables, limit):
        """Whether it passes, within so many seconds."""
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "TMPDIR": folder, "RUST_BACKTRACE": "0", **variables}
            process = subprocess.Popen([self.program, "--exact", self.name, "--test-threads", "1", "-q"], cwd=self.folder,
                                       env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, preexec_fn=bounds)
            try:
                return process.wait(limit) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()


def bounds():
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MAX, FILE_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def listed(programs, leave_out):
    """The tests of programs, without those whose name begins with a word of `leave_out`."""
    for folder, program in programs:
        run = subprocess.run([program, "--list", "--format", "terse"], cwd=folder, capture_output=True, text=True, check=True)
        ignored = subprocess.run([program, "--list", "--format", "terse", "--ignored"], cwd=folder, capture_output=True,
                                 text=True, check=True)
        for line in sorted(set(run.stdout.splitlines()) - set(ignored.stdout.splitlines())):
            name, _, kind = line.rpartition(": ")
            if kind == "test" and not name.startswith(tuple(leave_out)):
                yield Test(str(folder), program, name)


class Runs:
    def __init__(self, tests, jobs):
        self.tests, self.jobs = list(tests), jobs
        self.seconds, self.reaching = {}, collections.defaultdict(set)
        # Number of mutants of a file that a test has caught.
        self.caught = collections.Counter()

    def learn(self, longest):
        """Runs each test once; those that fail without a mutant, or take longer than this, are not used."""
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda test: self._learn(test, longest), self.tests))
        print(f"{len(self.seconds)} of {len(self.tests)} tests pass and reach a mutant, "
              f"{sum(self.seconds.values()):.0f} s together", flush=True)

    def _learn(self, test, longest):
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder) / "reached"
            began = time.monotonic()
            passes = test.run({"OMEGA_MUTANTS_REACHED": str(record)}, longest)
            took = time.monotonic() - began
            if not passes:
                print(f"left out: {test.name} fails, or takes more than {longest} s", file=sys.stderr, flush=True)
            elif record.exists():
                self.seconds[test] = took
                for number in record.read_text().split():
                    self.reaching[int(number)].add(test)

    def judge(self, mutants, budget):
        """For each mutant the name of a test that fails, `""` if all pass, or `None` if the budget of seconds ended before."""
        with ThreadPoolExecutor(self.jobs) as pool:
            yield from zip(mutants, pool.map(lambda mutant: self._judge(mutant, budget), mutants))

    def _judge(self, mutant, budget):
        def rank(test):
            return self.seconds[test] / (1 + self.caught[mutant.path, test])

        spent = 0.0
        for test in sorted(self.reaching[mutant.number], key=rank):
            if spent > budget:
                return None
            began = time.monotonic()
            if not test.run({"OMEGA_MUTANT": str(mutant.number)}, LEAST_SECONDS + 10 * self.seconds[test]):
                self.caught[mutant.path, test] += 1
                return test.name
            spent += time.monotonic() - began
        return ""
