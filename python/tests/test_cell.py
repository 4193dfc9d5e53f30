"""Tests of the package with a real served cell. `OMEGA` names the program, built with the feature `serve`.

    OMEGA=target/debug/omega python -m unittest discover -s python/tests
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np
from google.protobuf import json_format

import omega_cell
from omega_cell import AsyncClient, Client, Group, HealthCheck, Job, Machine, Program, Requirement
from omega_cell._calls import make
from omega_cell.scheduler import Scheduler

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


class Server:
    """A served cell of one replica, on a port that the system chose."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.address = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        command = [os.environ["OMEGA"], "serve", "--dir", f"{self.folder.name}/cell", "--listen", self.address]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = re.search(r" listens on (\S+)", line)
            if found:
                self.address = found[1]
                break
        else:
            raise AssertionError("the server ended before it listened")
        self.reader = threading.Thread(target=self.process.stdout.read, daemon=True)
        self.reader.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def close(self) -> None:
        self.kill()
        self.folder.cleanup()


class ServedCell(unittest.TestCase):
    """One server for all tests; each test uses separate names for jobs and machines."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

    def client(self, *before: str) -> Client:
        client = Client([*before, self.server.address])
        self.addCleanup(client.close)
        return client

    def test_jobs_are_data_classes(self) -> None:
        client = self.client()
        job = Job("classes", Group(count=2, cpu=0.25, memory="512MiB", labels={"app": "x"}), service=True, precedence=7)
        id = client.submit(job)
        self.assertEqual(client.submit(job), id, "the same job again has the same id")
        status = client.job("classes")
        self.assertEqual((status.id, status.pending), (id, 2))
        self.assertEqual(status.job, Job("classes", (Group(count=2, cpu=0.25, memory=512 << 20, labels={"app": "x"}),),
                                         service=True, precedence=7))
        client.resize("classes", 5)
        self.assertEqual(client.job(id).pending, 5)
        self.assertIn("classes", [status.job.name for status in client.jobs()])
        client.kill("classes")
        self.assertEqual(client.job(id).killed, 5)

    def test_errors_have_the_code_of_the_server(self) -> None:
        client = self.client()
        with self.assertRaises(omega_cell.NotFound) as caught:
            client.job("never")
        self.assertEqual(caught.exception.code, "UNKNOWN_JOB")
        client.submit(Job("taken", Group(cpu=1)))
        with self.assertRaises(omega_cell.AlreadyExists) as caught:
            client.submit(Job("taken", Group(cpu=2)))
        self.assertEqual(caught.exception.code, "NAME_TAKEN")
        with self.assertRaisesRegex(ValueError, "gpus_of_mine.*cpu, memory"):
            client.submit(Job("odd", Group(resources={"gpus_of_mine": 1})))
        client.kill("taken")

    def test_calls_pass_by_replicas_that_are_down(self) -> None:
        client = self.client("127.0.0.1:9", "127.0.0.1:19")
        self.assertEqual(client.describe().leader, 1)

    def test_watch_tells_of_each_change_until_the_end(self) -> None:
        client = self.client()
        client.submit(Job("watched", Group(count=2, cpu=1), scheduler="nobody"))
        seen = []
        for change in client.watch("watched"):
            seen.append([task.phase for task in change.tasks])
            if not change.ended:
                client.kill("watched")
        self.assertEqual(seen[0], ["pending", "pending"])
        self.assertEqual(seen[-1], ["killed", "killed"])

    def test_the_call_that_the_page_of_the_api_shows(self) -> None:
        page = (REPOSITORY / "docs/api.md").read_text()
        found = re.search(r"grpcurl -plaintext -d '(.*)' \\\n.* omega\.v1\.(\w+)Service/(\w+)\n", page)
        assert found is not None
        client = self.client()
        call = make(found[2], found[3], lambda answer: int(answer.id))
        json_format.Parse(found[1], call.request)
        self.assertEqual(client.job(client.call(call)).job, Job("hello", (Group(count=3, cpu=0.5),)))
        client.kill("hello")

    def test_asyncio_has_the_same_calls(self) -> None:
        public = {name for name in vars(Client) if not name.startswith("_")} - {"stream", "failed"}
        self.assertEqual(public, {name for name in vars(AsyncClient) if not name.startswith("_")})

        async def use() -> list[str]:
            async with AsyncClient(["127.0.0.1:9", self.server.address]) as client:
                await client.submit(Job("async", Group(count=3, cpu=1), scheduler="nobody"))
                phases = []
                async for change in client.watch("async"):
                    phases += [task.phase for task in change.tasks]
                    if not change.ended:
                        await client.kill("async")
                self.assertEqual([task.index async for task in client.tasks("async")], [0, 1, 2])
                with self.assertRaises(omega_cell.NotFound):
                    await client.job("never")
                return phases

        self.assertEqual(asyncio.run(use()), ["pending"] * 3 + ["killed"] * 3)

    def test_a_scheduler_places_what_fits_and_hears_of_conflicts(self) -> None:
        client = self.client()
        for name in ("s1", "s2"):
            client.add_machine(Machine(name, cpu=2, memory="4GiB", labels={"for": "s"}))
        rule = (Requirement("for", "in", ("s",)),)
        for name in ("mine", "theirs"):
            client.submit(Job(name, Group(count=5, cpu=1, memory="1GiB", require=rule), scheduler=name))
        with Scheduler(client, "mine") as one, Scheduler(client, "theirs") as other:
            one.sync()
            other.sync()
            self.assertEqual([job.groups[0].require for job in one.view.jobs.values()], [rule])
            self.assertEqual(one.view.taints[one.view.names.index("s1")], ())
            row = one.view.names.index("s1")
            rows = np.array([row, row, row, one.view.names.index("s2"), -1])
            result = one.commit(one.pending(), rows)
            self.assertEqual((result.placed, [(c.at, c.reason) for c in result.conflicts]), (3, [(2, "no_room")]))
            self.assertEqual(len(one.pending()), 2)
            # The other scheduler decided on an older state, and claims what is no longer free.
            late = other.commit(other.pending(), np.full(5, row))
            self.assertEqual(late.placed, 0)
            self.assertEqual([(c.at, c.reason) for c in late.conflicts], [(at, "no_room") for at in range(5)])
            for scheduler, pending in ((one, 2), (other, 5)):
                scheduler.sync()
                free = dict(zip(scheduler.view.names, scheduler.view.free[:, 0].tolist()))
                self.assertEqual((free["s1"], free["s2"], len(scheduler.pending())), (0, 1000, pending))
            self.assertRegex(client.explain("mine")[0], "^main: 2 pending")
        for name in ("mine", "theirs"):
            client.kill(name)
        for name in ("s1", "s2"):
            client.remove_machine(name)


class Programs(unittest.TestCase):
    """A cell with a scheduler and an agent that runs programs, without limits."""

    PORTS = 21_000 + os.getpid() % 800 * 10

    def started(self, folder: str, *arguments: str) -> None:
        process = subprocess.Popen(
            [os.environ["OMEGA"], *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def cell(self) -> Client:
        server = Server()
        self.addCleanup(server.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        at = ("--cell", server.address)
        agent = ("--no-limits", "--name=box", "--dir=box", "--heartbeat=1", "--cpu=4", "--memory=1GiB")
        self.started(folder.name, "agent", *at, *agent, f"--ports={self.PORTS}-{self.PORTS + 9}")
        self.started(folder.name, "scheduler", *at)
        client = Client(server.address)
        self.addCleanup(client.close)
        return client

    def wait_for(self, client: Client, job: str, phase: str) -> None:
        for change in client.watch(job):
            if all(task.phase == phase for task in client.tasks(job)):
                return
            self.assertFalse(change.ended, list(client.tasks(job)))

    def wait_for_task(self, client: Client, job: str, index: int) -> None:
        for change in client.watch(job):
            if any(task.index == index and task.phase == "running" for task in change.tasks):
                return
            self.assertFalse(change.ended)

    def test_programs_run_and_have_output(self) -> None:
        client = self.cell()
        script = "echo task $OMEGA_TASK_INDEX $GREETING; seq 100000 >&2"
        program = Program("/bin/sh", ("-c", script), env={"GREETING": "hello"}, working_dir="/", attempts=2, delay_s=0.5)
        job = Job("array", Group(count=3, cpu=0.1, memory=1 << 20, program=program, payload=b"raw"))
        client.submit(job)
        self.wait_for(client, "array", "finished")
        self.assertEqual([b"".join(client.log("array", at)) for at in range(3)],
                         [f"task {at} hello\n".encode() for at in range(3)])
        parts = list(client.log("array", 2, stream="stderr"))
        self.assertGreater(len(parts), 1, "a part has at most 256 KiB")
        numbers = b"".join(b"%d\n" % number for number in range(1, 100_001))
        self.assertEqual(b"".join(parts), numbers)
        self.assertEqual(b"".join(client.log("array", 0, stream="stderr", tail_lines=2)), b"99999\n100000\n")
        self.assertEqual(client.job("array").job.groups[0], job.groups)
        with self.assertRaises(omega_cell.NotFound):
            list(client.log("never"))
        client.delete("array")
        client.submit(Job("array", Group(cpu=0.1), scheduler="nobody"))

    def test_a_service_is_updated_and_followed(self) -> None:
        client = self.cell()
        script = 'echo "$WORD"; exec python3 -m http.server --bind 127.0.0.1 "$OMEGA_PORT_WEB"'
        health = HealthCheck(http="web", path="/", interval_s=0.2, timeout_s=5, start_period_s=60)

        def service(word: str) -> Job:
            program = Program("/bin/sh", ("-c", script), env={"WORD": word}, health=health)
            return Job("web", Group(cpu=0.1, memory=1 << 20, ports={"web": "any"}, program=program), service=True)

        client.submit(service("first"))
        self.wait_for(client, "web", "running")
        self.assertEqual(client.job("web").job.groups[0], service("first").groups)
        self.assertEqual(client.update(service("second"), version=0), 1)
        with self.assertRaises(omega_cell.OmegaError) as caught:
            client.update(service("third"), version=0)
        self.assertEqual(caught.exception.code, "OTHER_VERSION")
        output = b"".join(client.log("web", 0, follow=True))
        self.assertIn(b"first\n", output, "the old task's output ends with the task")
        self.wait_for_task(client, "web", 1)
        port = next(task for task in client.tasks("web") if task.phase == "running").ports["web"]
        client.kill("web")
        # A program outlives its agent, so the test ends after the program.
        with self.assertRaises(OSError):
            while True:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                time.sleep(0.05)


class HealthChecks(unittest.TestCase):
    def test_a_check_has_one_probe(self) -> None:
        for check in (HealthCheck(command=("/bin/check",)), HealthCheck(tcp=80), HealthCheck(tcp="web", failures=9),
                      HealthCheck(http=80, path="/ready"), HealthCheck(http="web", start_period_s=1.5)):
            self.assertEqual(HealthCheck.of_message(check.to_message()), check)
        for wrong in (HealthCheck(), HealthCheck(tcp=80, http=80)):
            with self.assertRaisesRegex(ValueError, "exactly one"):
                wrong.to_message()


class Words(unittest.TestCase):
    def test_one_text_is_no_list_of_words(self) -> None:
        for wrong in (Program("/bin/echo", "hello"), HealthCheck(command="/bin/check")):  # type: ignore[arg-type]
            with self.assertRaisesRegex(ValueError, r"must be a tuple of words: \('"):
                wrong.to_message()


class Restarts(unittest.TestCase):
    """A separate server, which is killed."""

    def test_a_scheduler_and_a_watch_live_through_a_restart(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        client = Client(server.address)
        self.addCleanup(client.close)
        client.add_machine(Machine("m", cpu=4, memory="4GiB"))
        client.submit(Job("first", Group(count=1, cpu=1), scheduler="mine"))
        with Scheduler(client, "mine") as scheduler:
            scheduler.sync()
            self.assertEqual(scheduler.commit(scheduler.pending(), [0]).placed, 1)
            changes = client.watch("first")
            self.assertEqual([task.phase for task in next(changes).tasks], ["placed"])
            server.kill()
            server.start()
            client.submit(Job("second", Group(count=2, cpu=1), scheduler="mine"))
            while len(scheduler.pending()) < 2:
                self.assertTrue(scheduler.wait(30.0), "the stream of deltas goes on")
            self.assertEqual(scheduler.commit(scheduler.pending(), [0, 0]).placed, 2)
            scheduler.sync()
            self.assertEqual(scheduler.view.free[0, 0], 1000)
            client.kill("first")
            self.assertEqual([change.ended for change in changes][-1], True)


class Speed(unittest.TestCase):
    """A cell of 10,000 machines; docs/python.md has the command that measures."""

    def test_ten_thousand_machines_and_a_full_round(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        client = Client(server.address)
        self.addCleanup(client.close)
        machines = int(os.environ.get("OMEGA_MACHINES", "500"))
        asyncio.run(self.register(server.address, machines))
        tasks = 4 * machines
        client.submit(Job("many", Group(count=tasks, cpu=1, memory="1GiB"), scheduler="mine"))
        with Scheduler(client, "mine") as scheduler:
            scheduler.sync()
            pending = scheduler.pending()
            self.assertEqual(len(pending), tasks)
            began = time.perf_counter()
            # First fit by columns: a machine gets as many tasks as its scarcest kind allows.
            rows = scheduler.view.rows()
            need = pending.request[0]
            room = np.min(scheduler.view.free[rows][:, need > 0] // need[need > 0], axis=1)
            result = scheduler.commit(pending, np.repeat(rows, room)[:tasks])
            scheduler.sync()
            took = time.perf_counter() - began
            self.assertEqual((result.placed, len(scheduler.pending())), (tasks, 0))
            self.assertTrue((scheduler.view.free[rows, 0] == 0).all())
        print(f"{tasks} tasks on {machines} machines: {tasks / took:,.0f} placements a second")

    @staticmethod
    async def register(address: str, machines: int) -> None:
        async with AsyncClient(address) as client:
            for begin in range(0, machines, 200):
                names = range(begin, min(begin + 200, machines))
                added = (client.add_machine(Machine(f"m{name}", cpu=4, memory="16GiB")) for name in names)
                await asyncio.gather(*added)


class Sources(unittest.TestCase):
    """The repository's own rules for this package."""

    def test_the_descriptors_are_those_of_the_definitions(self) -> None:
        ours = REPOSITORY / "python/src/omega_cell/_api/descriptors.bin"
        theirs = REPOSITORY / "server/client/src/generated/descriptors.bin"
        remedy = f"copy {theirs.relative_to(REPOSITORY)} to {ours.relative_to(REPOSITORY)}"
        self.assertEqual(ours.read_bytes(), theirs.read_bytes(), remedy)


if __name__ == "__main__":
    unittest.main()
