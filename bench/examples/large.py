"""Writes large cells as two tables each, for `omega sim run`; BENCHMARKS.md has the run times.

python3 large.py month DIR     a month of 12,500 machines, with services from the start, and ten batch tasks a second
python3 large.py million DIR   an hour of 1,000,000 machines, with services from the start, and ten million batch tasks. No batch
                               task ends within this hour, and all have ended by the end of the third hour

Then run: omega sim run --machines DIR/machines.csv --jobs DIR/jobs.csv

The seed is fixed, so every run writes equal tables.
"""

import pathlib
import random
import sys

HOUR_S = 3600
# Mean of `tasks` below. If a job arrives every TASKS_MEAN seconds, one task arrives per second on average.
TASKS_MEAN = 10.8


def tasks():
    """Most jobs have one task, and few have hundreds."""
    which = dice.random()
    if which < 0.75:
        return 1
    if which < 0.9:
        return dice.randint(2, 20)
    return dice.randint(20, 100) if which < 0.99 else dice.randint(200, 400)


def month_run_s():
    """21 minutes on average, and a day at most."""
    return max(1, min(86400, dice.lognormvariate(6.17, 1.38)))


def million_run_s():
    """An hour or two, so that no task ends while others still arrive."""
    return dice.uniform(HOUR_S, 2 * HOUR_S)


# For each cell: the number of machines; the number of services, and of the tasks of each; batch tasks per second; the
# length in hours; and the run time of a batch task.
CELLS = {
    "month": (12_500, (600, 200), 10, 720, month_run_s),
    "million": (1_000_000, (10_000, 100), 2_800, 1, million_run_s),
}

if len(sys.argv) != 3 or sys.argv[1] not in CELLS:
    sys.exit(__doc__)
machines, (services, of), tasks_a_second, hours, run_time = CELLS[sys.argv[1]]
dice = random.Random(1)
folder = pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
(folder / "machines.csv").write_text(f"name,cpu,memory,count\nm,32,128Gi,{machines}\n")

with open(folder / "jobs.csv", "w") as jobs:
    jobs.write("name,count,cpu,memory,arrival_s,run_s,kind\n")
    for number in range(services):
        jobs.write(f"s{number},{of},2,6Gi,0,,service\n")
    at_s, number = 0.0, 0
    while True:
        count = tasks()
        at_s += dice.expovariate(1.0) * (TASKS_MEAN / tasks_a_second)
        if at_s >= hours * HOUR_S:
            break
        run_s = run_time()
        cpu, memory = dice.choice((0.25, 0.5, 1, 2)), dice.choice((1, 2, 4))
        jobs.write(f"b{number},{count},{cpu},{memory}Gi,{at_s:.3f},{run_s:.3f},batch\n")
        number += 1
