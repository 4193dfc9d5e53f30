//! `omega dev` when another process uses one of its ports, or a file is in the place of its folder.

use crate::kit::cell::serve;
use crate::kit::process::{CommandOutput, folder, omega};
use crate::work::quickstart::free_base;
use std::path::Path;

/// Runs `omega dev`, which must not start.
fn fails(dir: &Path, arguments: &[String]) -> String {
    let mut command = omega(dir);
    // `omega dev` must remove these variables; otherwise, the replicas would read them as settings.
    command.env("OMEGA_SERVE_CONFIG", "missing.toml").env("OMEGA_PEERS", "9=h:1");
    let result: CommandOutput =
        command.arg("dev").args(arguments).output().expect("omega starts").into();
    assert_eq!((result.code, result.stdout.as_str()), (Some(2), ""), "{}", result.stderr);
    assert_eq!(result.stderr.lines().count(), 1, "{}", result.stderr);
    result.stderr
}

#[test]
fn a_cell_to_try_out_does_not_join_another_cell() {
    let (dir, base) = (folder(&[]), free_base());
    for taken in [base, base + 1, base + 101, base + 202] {
        let listen = format!("--listen=127.0.0.1:{taken}");
        let _other = serve(dir.path(), &["--memory".to_owned(), listen]);
        let why = fails(dir.path(), &[format!("--port={base}"), "--dir=tried".to_owned()]);
        assert!(why.contains(&format!("127.0.0.1:{taken}: ")) && why.contains("--port"), "{why}");
        assert_eq!(dir.path().join("tried").read_dir().unwrap().count(), 0, "nothing was started");
    }
}

#[test]
fn the_reason_is_printed_if_a_replica_does_not_start() {
    let (dir, base) = (folder(&[("tried/r1", "a file in place of a folder")]), free_base());
    let arguments = ["--replicas=1", "--dir=tried"].map(str::to_owned).to_vec();
    let why = fails(dir.path(), &[arguments, vec![format!("--port={base}")]].concat());
    assert!(why.starts_with("omega: r1 does not start: "), "{why}");
    assert!(why.contains("tried/r1") && !why.contains("missing.toml"), "{why}");
}
