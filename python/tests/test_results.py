"""Results as Arrow tables: `OMEGA` and `OMEGA_SIM` name the programs."""

import os
import pathlib
import tempfile
import unittest

from omega_cell import results


class Results(unittest.TestCase):
    def test_a_run_is_a_table_for_each_part(self) -> None:
        run = results.run("--synthetic", "50", "--hours", "1", program=os.environ["OMEGA"])
        self.assertEqual(set(run), set(results.TABLES))
        self.assertEqual(run.summary["machines"], 50)
        placed = sum(run["schedulers"]["placements"].to_pylist())
        self.assertEqual(placed, run.summary["placements"])
        self.assertEqual(run["heat"].num_rows, 50)
        self.assertLessEqual(max(run["series"]["used_cpu"].to_pylist()), 1.0)

    def test_a_sweep_has_a_row_for_each_point_and_scheduler(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "sweep.toml"
            file.write_text('[input]\nsynthetic = 50\nhours = 1\n[sweep]\narch = ["omega"]\nt_job_service = [0.1, 10]\n')
            rows = results.sweep(file, f"{folder}/out", program=os.environ["OMEGA_SIM"])
            self.assertEqual(sorted(set(rows["t_job_service"].to_pylist())), [0.1, 10.0])
            self.assertEqual(rows, results.read_sweep(f"{folder}/out"))

    def test_a_failed_program_says_why(self) -> None:
        with self.assertRaisesRegex(results.ProgramError, "status 2: .*--no-such-flag"):
            results.run("--no-such-flag", program=os.environ["OMEGA"])


if __name__ == "__main__":
    unittest.main()
