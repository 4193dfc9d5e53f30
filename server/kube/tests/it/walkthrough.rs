//! A test that runs the commands and manifests of docs/kubernetes.md in the order of the page, as a new user would.

use crate::double::{Double, PODS, text};
use crate::process::{Program, block_on, server};
use omega_kube::profiles;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Commands that need more than an API server, such as a compiler, an image builder, controllers or a real cluster.
const BEYOND: [&str; 5] = [
    "cargo ",
    "podman ",
    "kubectl -n kube-system rollout ",
    "OMEGA_KUBE_SERVER",
    "target/release/",
];

/// A step of the page.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Run(String),
    Apply(String),
}

/// Returns the commands and manifests of a page, in order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for (index, block) in page.split("```").enumerate() {
        if index % 2 == 0 {
            continue;
        }
        if let Some(manifest) = block.strip_prefix("yaml\n") {
            steps.push(Step::Apply(manifest.to_owned()));
        } else if let Some(lines) = block.strip_prefix("console\n") {
            let joined = lines.replace("\\\n", " ");
            let commands = joined.lines().filter_map(|line| line.strip_prefix("$ "));
            steps.extend(commands.map(|command| Step::Run(command.to_owned())));
        }
    }
    steps
}

/// The computer of a user: a home folder with a kubeconfig, and `omega-kube` in the search path.
struct User {
    home: tempfile::TempDir,
    top: PathBuf,
}

impl User {
    fn new(url: &str) -> User {
        let home = tempfile::tempdir().expect("a folder");
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        );
        std::fs::write(home.path().join("config"), config).expect("a file");
        User { home, top: Path::new(env!("CARGO_MANIFEST_DIR")).join("../..") }
    }

    fn command(&self, line: &str) -> Command {
        let folder = Path::new(env!("CARGO_BIN_EXE_omega-kube")).parent().expect("a folder");
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.top).env("PATH", path);
        command.env("HOME", self.home.path()).env("KUBECONFIG", self.home.path().join("config"));
        command.env("NO_PROXY", "127.0.0.1").stdin(Stdio::null());
        command
    }

    async fn run(&self, line: &str) -> Output {
        let mut command = self.command(line);
        let ended = tokio::task::spawn_blocking(move || command.output()).await;
        ended.expect("a thread").expect("a shell")
    }

    /// Runs a command line, which must succeed. Returns its output.
    async fn succeed(&self, line: &str) -> String {
        let output = self.run(line).await;
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn is_bound(double: &Double, name: &str) -> bool {
    let mut pods = double.all(PODS).filter(|pod| text(pod, "/metadata/name") == name);
    pods.next().is_some_and(|pod| !text(pod, "/spec/nodeName").is_empty())
}

#[test]
fn the_page_works_as_it_is_typed() {
    block_on(async {
        let server = server(3).await;
        let user = User::new(&server.url());
        if !user.run("kubectl version --client").await.status.success() {
            println!("skipped: kubectl not found");
            return;
        }
        let page = std::fs::read_to_string(user.top.join("docs/kubernetes.md")).expect("the page");
        assert!(page.contains("$ target/release/omega-kube run --scheduler-name omega\n"));
        let mut run = user.command("exec omega-kube run --scheduler-name omega --listen off");
        let _program = Program(run.env("OMEGA_LOG", "warn").spawn().expect("it starts"));
        let mut pods = 0;
        for step in steps(&page) {
            match step {
                Step::Run(line) if BEYOND.iter().any(|begin| line.starts_with(begin)) => {}
                Step::Run(line) => {
                    // The double has no schemas, so `kubectl` must not validate.
                    let line = line.replace("kubectl apply", "kubectl apply --validate=false");
                    let output = user.succeed(&line).await;
                    if let Some(name) = line.strip_prefix("kubectl run ") {
                        let name = name.split(' ').next().unwrap_or_default().to_owned();
                        server.until(|double| is_bound(double, &name)).await;
                        pods += 1;
                    } else if line.starts_with("omega-kube explain") {
                        assert!(output.contains("is bound to"), "{output}");
                    }
                }
                Step::Apply(manifest) if manifest.contains("kind: KubeSchedulerConfiguration") => {
                    profiles::parse(&manifest).expect("it is honoured");
                }
                Step::Apply(manifest) => {
                    let file = user.home.path().join("manifest.yaml");
                    std::fs::write(&file, manifest).expect("a file");
                    for more in ["--dry-run=client", ""] {
                        let file = file.display();
                        user.succeed(&format!("kubectl apply --validate=false {more} -f {file}"))
                            .await;
                    }
                }
            }
        }
        assert!(pods >= 2, "the page creates pods");
        let claims = server.lock().all("/api/v1/persistentvolumeclaims").count();
        assert_eq!(claims, 1, "and a claim");
    });
}
