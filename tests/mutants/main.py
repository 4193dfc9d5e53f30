"""Mutation testing: `.ci/mutants --sample 400 --seed 1`. Prints a table and each mutant that no test catches.

`equivalent.txt` lists mutants that change nothing that anybody can observe, each with its reason.
"""

import argparse
import collections
import glob
import random
import sys
from pathlib import Path

import build
import run

ROOT = Path(__file__).resolve().parents[2]

# Minimum share of the mutants that must be caught or equivalent.
GOAL = 0.95

# Critical code: commits, deltas, open claims, consensus, the log, permissions and limits.
PATHS = ["cellstate/src/commit/*.rs", "cellstate/src/delta/build.rs", "cellstate/src/delta/mod.rs",
         "cellstate/src/view/own/claims.rs", "store/src/node/*.rs",
         "store/src/replica/*.rs", "store/src/log/*.rs", "store/src/log/segment/*.rs", "server/service/src/access/roles.rs",
         "server/service/src/overload/limits.rs", "server/service/src/overload/slots.rs", "cellstate/src/state/task_places.rs",
         "cellstate/src/delta/log/recent_rows.rs"]
PACKAGES = ["omega-cellstate", "omega-store", "omega-service"]
LIBRARIES = ["-p", "omega-cellstate", "-p", "omega-store", "-p", "omega-service", "-p", "omega-tests", "--lib", "--tests"]
# Tests that run processes take long. Of them, only these test permissions and limits.
SERVED = ["-p", "omega-server", "--features", "serve", "--test", "it"]
SERVED_TESTS = ("callers::",)
# Tests that are left out: some look for injected bugs themselves, or read the repository's text; those of plugins,
# profiles and rebalancing only use the cell.
LEAVE_OUT = ["documents::", "repository::", "rebalancing::", "cell::snapshot_states::", "plugins::kube_", "plugins::load::", "plugins::profile",
             "plugins::volumes", "replicas::injected_bugs::", "scheduling::diagnosis::", "scheduling::examples::", "scheduling::placement",
             "scheduling::pool::", "scheduling::scheduler", "storage::fuzz::"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=str(ROOT / "target" / "mutants"), help="where the copy and its build are")
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--numbers", default="", help="only these mutants, such as 17,40")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants, drawn by the seed; all if 0")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for a mutant")
    parser.add_argument("--longest", type=float, default=60, help="seconds of a test that is used")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    return parser.parse_args()


def equivalent():
    """Mutants that change nothing: their text, without the line, to the reason."""
    found = {}
    for line in (Path(__file__).parent / "equivalent.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, reason = line.split(" -- ")
            found[key.strip()] = reason.strip()
    return found


def chosen(sources, options):
    mutants = [mutant for source in sources for mutant in source.kept()]
    print(f"{len(mutants)} mutants in {len(sources)} files", flush=True)
    if options.numbers:
        numbers = {int(number) for number in options.numbers.split(",")}
        return [mutant for mutant in mutants if mutant.number in numbers]
    mutants = [mutant for mutant in mutants if options.only in mutant.path]
    if options.sample and options.sample < len(mutants):
        print(f"a sample of {options.sample} by seed {options.seed}", flush=True)
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    return mutants


def main():
    options = arguments()
    made = build.Build(ROOT, options.folder, PACKAGES)
    paths = sorted(str(Path(path).relative_to(ROOT)) for pattern in PATHS for path in glob.glob(str(ROOT / pattern)))
    mutants = chosen(made.mutate(paths), options)
    tests = list(run.listed(made.tests(LIBRARIES), LEAVE_OUT))
    if any(mutant.path.startswith("server") for mutant in mutants):
        tests += [test for test in run.listed(made.tests(SERVED), LEAVE_OUT) if test.name.startswith(SERVED_TESTS)]
    runs = run.Runs(tests, options.jobs)
    runs.learn(options.longest)
    table, known = collections.defaultdict(collections.Counter), equivalent()
    for mutant, test in runs.judge(mutants, options.budget):
        reason = known.get(f"{mutant.path}: {mutant.what}")
        verdict = "caught" if test else "equivalent" if reason else "missed"
        table[mutant.path][verdict] += 1
        if verdict == "missed":
            reached = len(runs.reaching[mutant.number])
            state = "reached by no test" if not reached else f"{reached} tests pass" if test == "" else "budget spent"
            print(f"missed {mutant.number}: {mutant} ({state})", flush=True)
        elif verdict == "caught" and reason:
            print(f"{mutant} is listed as equivalent, but {test} fails", flush=True)
    return show(table) >= GOAL


def show(table):
    print("\n| file | mutants | caught | equivalent | missed |\n|---|--:|--:|--:|--:|")
    total = collections.Counter()
    for path in sorted(table):
        total += table[path]
        row(f"`{path}`", table[path])
    row("all", total)
    known = (total["caught"] + total["equivalent"]) / max(1, total.total())
    print(f"\n{known:.1%} caught or equivalent")
    return known


def row(name, counts):
    print(f"| {name} | {counts.total()} | {counts['caught']} | {counts['equivalent']} | {counts['missed']} |")


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
