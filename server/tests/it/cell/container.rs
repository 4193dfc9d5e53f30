//! A server in a container with `--read-only`: in a read-only root, as an unprivileged user, with one writable folder
//! for its cell. It needs nothing else: no `/tmp`, `/proc` or `/dev`.
//!
//! Tests have no container runtime, so a mount namespace and `chroot` replace it. They require root; otherwise the test
//! is skipped with a message.

use crate::kit::cell::{Process, ports};
use crate::kit::process::{folder, listing, run_omega};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes a root of this system's libraries in `$1`, with the program `$2` and the folder `$3`. Everything except the
/// folder is read-only. Runs the remaining arguments in this root as user 10001.
const CONFINE: &str = r#"
set -e
root="$1"; program="$2"; data="$3"; shift 3
mount -t tmpfs -o mode=755 none "$root"
mkdir "$root/omega" "$root/data"
mount --bind "$(dirname "$program")" "$root/omega"
mount -o remount,bind,ro "$root/omega"
for folder in /usr /lib /lib64; do
    [ -e "$folder" ] || continue
    mkdir "$root$folder"
    mount --bind "$folder" "$root$folder"
    mount -o remount,bind,ro "$root$folder"
done
mount --bind "$data" "$root/data"
chown 10001:10001 "$root/data"
mount -o remount,ro "$root"
exec chroot --userspec=10001:10001 "$root" "$@"
"#;

/// A command in a separate root.
fn confined(dir: &Path, command: &[&str]) -> Command {
    let (root, data) = (dir.join("root"), dir.join("data"));
    let mut confined = Command::new("unshare");
    confined.args(["--mount", "--propagation=private", "sh", "-c", CONFINE, "sh"]);
    confined.arg(root).arg(env!("CARGO_BIN_EXE_omega")).arg(data).args(command);
    confined.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    confined.stdin(Stdio::null());
    confined
}

/// Whether this process has the rights to make such a root.
fn may_confine(dir: &Path) -> bool {
    let tried = confined(dir, &["/usr/bin/true"]).output();
    tried.is_ok_and(|tried| tried.status.success())
}

fn serve(dir: &Path, address: &str) -> Process {
    let listen = format!("--listen={address}");
    let mut command = confined(dir, &["/omega/omega", "serve", "--dir=/data/cell", &listen]);
    let mut server = Process(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listens on"), "{line:?}");
    server
}

#[test]
fn a_server_writes_to_its_folder_and_nowhere_else() {
    let dir = folder(&[]);
    for name in ["root", "data"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    if !may_confine(dir.path()) {
        println!("skipped: a root of its own takes root's rights, and unshare");
        return;
    }
    // The root is read-only.
    let touch = |file| confined(dir.path(), &["/usr/bin/touch", file]).output().unwrap();
    for file in ["/x", "/omega/x", "/usr/x"] {
        let result = String::from_utf8(touch(file).stderr).unwrap();
        assert!(result.contains("Read-only") || result.contains("Permission"), "{file}: {result}");
    }
    assert!(touch("/data/x").status.success());
    std::fs::remove_file(dir.path().join("data/x")).unwrap();

    let address = format!("127.0.0.1:{}", ports(1)[0]);
    let ask = |line: &str| {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        arguments.extend(["--cell", &address, "-o", "json"]);
        let result = run_omega(dir.path(), &arguments);
        assert_eq!(result.code, Some(0), "{line}: {}", result.stderr);
        serde_json::from_str::<Value>(&result.stdout).unwrap()
    };
    let mut server = serve(dir.path(), &address);
    ask("machine add m --cpu 4");
    ask("job submit web --count 2 --cpu 1");
    ask("backup saved");
    let pid = server.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(server.0.wait().unwrap().success());
    assert_eq!(listing(&dir.path().join("data")), ["cell"]);
    let _server = serve(dir.path(), &address);
    assert_eq!(ask("job get web")["tasks"]["pending"], 2);
}
