"""A month of a cell of 12,500 machines as two tables: services that are there from the start, and ten batch tasks a second.

python3 month.py DIR && omega sim run --machines DIR/machines.csv --jobs DIR/jobs.csv

BENCHMARKS.md has how long that takes. The seed is fixed: the same tables each time.
"""

import pathlib
import random
import sys

MONTH_S = 720 * 3600
# The mean of `tasks` below: so many seconds between two jobs make ten tasks a second.
GAP_S = 1.08

dice = random.Random(1)
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
(folder / "machines.csv").write_text("name,cpu,memory,count\nm,32,128Gi,12500\n")


def tasks():
    """Most jobs have one task, and few have hundreds."""
    which = dice.random()
    if which < 0.75:
        return 1
    if which < 0.9:
        return dice.randint(2, 20)
    return dice.randint(20, 100) if which < 0.99 else dice.randint(200, 400)


with open(folder / "jobs.csv", "w") as jobs:
    jobs.write("name,count,cpu,memory,arrival_s,run_s,kind\n")
    for number in range(600):
        jobs.write(f"s{number},200,2,6Gi,0,,service\n")
    at_s, number = 0.0, 0
    while True:
        count = tasks()
        at_s += dice.expovariate(1.0) * GAP_S
        if at_s >= MONTH_S:
            break
        run_s = max(1, min(86400, dice.lognormvariate(6.17, 1.38)))
        cpu, memory = dice.choice((0.25, 0.5, 1, 2)), dice.choice((1, 2, 4))
        jobs.write(f"b{number},{count},{cpu},{memory}Gi,{at_s:.3f},{run_s:.3f},batch\n")
        number += 1
