//! Bad input: errors name the fault in one line, before anything has started, and no file is changed.
//!
//! The cases are in `bad_input.txt`. Each has the arguments, the invalid files, `---`, and the error line.
//! `OMEGA_BLESS=1 cargo test -p omega-server bad_input` writes the present errors to the file; read it before you
//! commit it.

use crate::kit::process::{folder, gzip, listing, run_omega};
use std::path::{Path, PathBuf};

/// Valid files that every case has, and may replace.
const SOUND: [(&str, &str); 2] = [
    ("m.csv", "name,cpu,memory\nm1,4,8Gi\nm2,8,16Gi\n"),
    ("j.csv", "name,count,cpu,memory\nweb,2,1,1Gi\n"),
];

/// Arguments that read the valid tables.
const TABLES: &str = "--machines m.csv --jobs j.csv";

/// Content of the file with the result of an earlier run.
const EARLIER: &str = "an earlier result\n";

/// Returns the last line that `omega` prints in a folder. `omega` must end with code 2, print no result, and change
/// neither the folder nor the earlier result in it.
fn fault(dir: &Path, arguments: &str) -> String {
    std::fs::write(dir.join("earlier.json"), EARLIER).unwrap();
    let before = listing(dir);
    let full = dir.to_str().unwrap();
    let words = arguments.split_whitespace().map(|word| word.replace("DIR", full));
    let outputs = ["--json", "earlier.json", "--report", "new.html"].map(str::to_owned);
    // The outputs are the first arguments, because a case may end with an option that lacks its value.
    let command = ["run".to_owned()].into_iter().chain(outputs);
    let words: Vec<String> = match arguments.strip_prefix("run-as-is") {
        Some(_) => words.skip(1).collect(),
        None => command.chain(words).collect(),
    };
    let output = run_omega(dir, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((output.code, &*output.stdout), (Some(2), ""), "{arguments}: {}", output.stderr);
    let line = output.stderr.strip_suffix('\n').expect("a line ends");
    assert!(!line.contains(char::is_control), "{arguments}: {line:?}");
    assert_eq!(listing(dir), before, "{arguments}");
    assert_eq!(std::fs::read_to_string(dir.join("earlier.json")).unwrap(), EARLIER, "{arguments}");
    line.replace(full, "DIR")
}

/// A case in the text file: its title, arguments and files.
struct Case<'a> {
    title: &'a str,
    arguments: &'a str,
    files: Vec<(&'a str, String)>,
}

impl<'a> Case<'a> {
    fn parse(text: &'a str) -> Case<'a> {
        let mut case = Case { title: "", arguments: "", files: Vec::new() };
        for line in text.lines().take_while(|line| *line != "---") {
            if let Some(title) = line.strip_prefix("# ") {
                case.title = title;
            } else if let Some(arguments) = line.strip_prefix("$ ") {
                case.arguments = arguments;
            } else if let Some(name) = line.strip_prefix("> ") {
                case.files.push((name, String::new()));
            } else if let Some((_, content)) = case.files.last_mut() {
                content.push_str(line);
                content.push('\n');
            }
        }
        case
    }

    fn fault(&self) -> String {
        let own = self.files.iter().map(|(name, content)| (*name, &**content));
        let files: Vec<(&str, &str)> = SOUND.into_iter().chain(own).collect();
        let dir = folder(&files);
        fault(dir.path(), self.arguments)
    }
}

#[test]
fn faults_are_told_in_one_line() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/offline/bad_input.txt");
    let wanted = std::fs::read_to_string(&file).unwrap();
    let (head, cases) = wanted.split_once("\n\n").unwrap();
    let mut output = vec![head.to_owned()];
    for text in cases.trim_end().split("\n\n") {
        let (input, _) = text.split_once("\n---").unwrap_or((text, ""));
        output.push(format!("{input}\n---\n{}", Case::parse(text).fault()));
    }
    if std::env::var("OMEGA_BLESS").is_ok() {
        std::fs::write(&file, output.join("\n\n") + "\n").unwrap();
        return;
    }
    for (wanted, output) in wanted.trim_end().split("\n\n").zip(&output) {
        assert_eq!(output, wanted, "{}", Case::parse(wanted).title);
    }
}

/// Error for a table of jobs with these bytes.
fn fault_of_jobs(bytes: &[u8]) -> String {
    let dir = folder(&SOUND);
    std::fs::write(dir.path().join("j.csv"), bytes).unwrap();
    fault(dir.path(), TABLES)
}

#[test]
fn a_file_that_is_cut_off_or_damaged_is_not_taken_for_its_beginning() {
    let rows: String = (0..500).map(|i| format!("job-{},{},1,1Gi\n", i * 7919, i + 1)).collect();
    let whole = gzip(&format!("name,count,cpu,memory\n{rows}"));
    let cut = fault_of_jobs(&whole[..whole.len() - 9]);
    assert_eq!(cut, "omega: j.csv:502: the gzip data ends too early: the file is incomplete");
    let mut damaged = whole.clone();
    let end = damaged.len();
    damaged[end - 6] ^= 1;
    let damaged = fault_of_jobs(&damaged);
    assert!(damaged.starts_with("omega: j.csv:502: the gzip data is damaged: "), "{damaged}");

    let dir = folder(&[]);
    std::fs::write(dir.path().join("c.json"), &whole[..whole.len() - 9]).unwrap();
    let cluster = fault(dir.path(), "--cluster c.json");
    assert_eq!(cluster, "omega: c.json: the gzip data ends too early: the file is incomplete");
}

#[test]
fn bytes_that_are_no_text_are_told_by_line() {
    let not_text = fault_of_jobs(b"name,count,cpu,memory\n\xff\xfe,1,1,1\n");
    assert_eq!(not_text, "omega: j.csv:2: the line is not UTF-8 text");
    let zero = fault_of_jobs(b"name,count,cpu,memory\na\0b,1,1,1\n");
    let expected = "omega: j.csv:2: name: has the invisible character U+0000: leave out control \
         and format characters";
    assert_eq!(zero, expected);
}

#[test]
fn a_line_without_end_does_not_fill_the_memory() {
    let long = format!("name,count,cpu,memory\n{}", "x".repeat(8 << 20));
    assert_eq!(
        fault_of_jobs(long.as_bytes()),
        "omega: j.csv:2: the line is longer than 65536 bytes"
    );
}

#[test]
fn a_name_with_a_line_break_is_told_in_one_line() {
    let dir = folder(&[]);
    for arguments in [["--cluster", "a\nb\u{1b}[31m"], ["--trace", "a\n\nb"], ["--a\nb", "c"]] {
        let output = run_omega(dir.path(), &arguments);
        assert_eq!((output.code, &*output.stdout), (Some(2), ""), "{arguments:?}");
        let line = output.stderr.strip_suffix('\n').unwrap();
        assert!(line.starts_with("omega: ") && !line.contains(char::is_control), "{line:?}");
    }
}
