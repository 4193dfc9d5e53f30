"""A copy of the repository with all mutants in it, and the tests that it compiles to."""

import json
import os
import re
import subprocess
from pathlib import Path

import find

# The module of `omega_core` that turns one mutant on, and records those that a test reaches.
SWITCH = """
pub mod mutants {
    //! Switches of the mutants that `tests/mutants` writes into a copy of the sources.

    use std::io::Write;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    static ON: LazyLock<u32> =
        LazyLock::new(|| std::env::var("OMEGA_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0));
    static RECORD: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("OMEGA_MUTANTS_REACHED").ok());
    static REACHED: [AtomicBool; 1 << 14] = [const { AtomicBool::new(false) }; 1 << 14];

    /// Whether the mutant of this number is on.
    pub fn on(number: u32) -> bool {
        if let Some(path) = RECORD.as_ref() {
            if !REACHED[number as usize].swap(true, Ordering::Relaxed) {
                let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
                file.and_then(|mut file| file.write_all(format!("{number}\\n").as_bytes())).expect("a record");
            }
        }
        *ON == number
    }
}
"""


class Build:
    """The copy in `folder`, compiled in its own target folder unless `CARGO_TARGET_DIR` names one."""

    def __init__(self, root, folder, packages):
        self.copy = Path(folder) / "copy"
        self.packages = packages
        self.environment = {"CARGO_TARGET_DIR": str(Path(folder) / "target"), **os.environ, "CARGO_INCREMENTAL": "0"}
        self.root = Path(root)

    def _write(self, path, text):
        """Writes a file of the copy, if it differs: Cargo compiles what has a new time."""
        path = self.copy / path
        if not path.exists() or path.read_bytes() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)

    def mutate(self, paths):
        """Makes the copy with the mutants of these files, without those that do not compile; returns the files."""
        core = "core/src/lib.rs"
        files = subprocess.run(["git", "ls-files", "-z"], cwd=self.root, check=True, capture_output=True, text=True).stdout
        for path in set(files.split("\0")) - {*paths, core, ""}:
            if (self.root / path).is_file():
                self._write(path, (self.root / path).read_bytes())
        self._write(core, (self.root / core).read_bytes() + SWITCH.encode())
        sources, first = [], 1
        for path in paths:
            sources.append(find.Source(path, (self.root / path).read_bytes(), first))
            first = sources[-1].next
            self._repeat(sources[-1])
        while True:
            for source in sources:
                self._write(source.path, source.text().encode())
            faults = self._faults()
            if not faults:
                return sources
            dropped = set()
            for path, start, end in faults:
                text = (self.copy / path).read_bytes()
                dropped |= find.around(text, start, end)
            fresh = dropped - set().union(*(source.dropped for source in sources))
            if not fresh:
                raise SystemExit(f"the copy does not compile, whatever is left out: {sorted(faults)[:5]}")
            print(f"{len(fresh)} mutants do not compile, and are left out", flush=True)
            for source in sources:
                source.dropped |= dropped

    def _repeat(self, source):
        """Leaves out what the run before left out, if the file has not changed since: then nothing is compiled again."""
        path = self.copy / source.path
        if path.exists():
            text = path.read_text()
            kept = {int(number) for number in re.findall(r"mutants::on\((\d+)\)", text)}
            source.dropped = {mutant.number for mutant in source.mutants} - kept
            if source.text() != text:
                source.dropped = set()

    def _faults(self):
        """The places of the compiler's errors."""
        packages = [word for package in self.packages for word in ("-p", package)]
        command = ["cargo", "check", "--locked", "--lib", *packages, "--message-format", "json", "--keep-going"]
        run = subprocess.run(command, cwd=self.copy, env=self.environment, capture_output=True, text=True)
        found = set()
        for line in run.stdout.splitlines():
            message = json.loads(line).get("message") or {}
            if isinstance(message, dict) and message.get("level") == "error":
                for span in message["spans"]:
                    if span["is_primary"]:
                        found.add((span["file_name"], span["byte_start"], span["byte_end"]))
        if run.returncode and not found:
            raise SystemExit(run.stderr)
        return found

    def tests(self, chosen):
        """Programs of tests: `(package's folder, path)`. `chosen` is what `cargo test --no-run` is told."""
        command = ["cargo", "test", "--locked", "--no-run", *chosen, "--message-format", "json"]
        run = subprocess.run(command, cwd=self.copy, env=self.environment, stdout=subprocess.PIPE, text=True, check=True)
        found = []
        for line in run.stdout.splitlines():
            message = json.loads(line)
            if message.get("executable") and message["profile"]["test"]:
                found.append((Path(message["manifest_path"]).parent, message["executable"]))
        return found
