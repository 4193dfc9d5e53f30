"""The notebooks and the examples of pages, executed unchanged. If they need a cell, the test starts `omega dev`."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "python/notebooks"

# Seconds after which an example that does not end is stopped, and its test fails.
LIMIT = 120


def free_port() -> int:
    """A port for `omega dev` such that the ports of its three replicas, for clients, peers and pages, are free."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000, 10):
        bound = []
        try:
            for each in (port + more + replica for more in (0, 100, 200) for replica in range(3)):
                probe = socket.socket()
                bound.append(probe)
                probe.bind(("127.0.0.1", each))
            return port
        except OSError:
            continue
        finally:
            for probe in bound:
                probe.close()
    raise AssertionError("no ports are free")


class Notebooks(unittest.TestCase):
    def execute(self, name: str, **environment: str) -> str:
        command = [sys.executable, str(NOTEBOOKS / "execute"), str(NOTEBOOKS / name)]
        ended = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def test_conflicts(self) -> None:
        self.assertIn("conflicts.ipynb: executed", self.execute("conflicts.ipynb"))

    def test_own_cell(self) -> None:
        port = free_port()
        command = [os.environ["OMEGA"], "dev", "--port", str(port), "--machines", "10"]
        dev = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(dev.wait)
        self.addCleanup(dev.terminate)
        assert dev.stdout is not None
        self.addCleanup(dev.stdout.close)
        self.assertTrue(any("web page: " in line for line in dev.stdout), "it says that it runs")
        printed = self.execute("own_cell.ipynb", OMEGA_CELL=f"127.0.0.1:{port}")
        self.assertRegex(printed, r"\[\(0, '\S+'\), \(1, '\S+'\)\]")
        for page in ("docs/python.md", "python/README.md"):
            first, *others = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
            example = re.sub(r"127\.0\.0\.1:760\d", f"127.0.0.1:{port}", first)
            subprocess.run([sys.executable, "-c", example], check=True, timeout=LIMIT)
            for example in others:
                compile(example, page, "exec")


if __name__ == "__main__":
    unittest.main()
