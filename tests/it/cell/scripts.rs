//! Runs every script in `tests/scripts/`, and compares its output.
//!
//! `OMEGA_BLESS=1 cargo test -p omega-tests scripts` writes the output into the files: review it before you commit.

use omega_tests::script;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let entries = std::fs::read_dir(folder).expect("the folder of scripts");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The first line that differs, and the title of the script.
fn first_difference(wanted: &str, printed: &str) -> String {
    let mut title = "";
    for (number, (wanted, printed)) in (1..).zip(wanted.lines().zip(printed.lines())) {
        title = if printed.starts_with('#') { printed } else { title };
        if wanted != printed {
            return format!("line {number}, {title}\n  wanted:  {wanted}\n  printed: {printed}");
        }
    }
    "one has more lines than the other".to_owned()
}

#[test]
fn scripts_print_what_they_say() {
    for file in files() {
        let wanted = std::fs::read_to_string(&file).unwrap();
        let printed = script::run_file(&wanted);
        let name = file.file_name().unwrap_or_default().display();
        if std::env::var("OMEGA_BLESS").is_ok() {
            std::fs::write(&file, printed).unwrap();
        } else if wanted != printed {
            panic!("{name}: {}", first_difference(&wanted, &printed));
        }
    }
}
