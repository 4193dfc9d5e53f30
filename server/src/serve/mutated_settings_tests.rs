//! Files of settings with typing errors: each is either read, or rejected with one line. None causes a panic.

use super::settings::SourceSettings;
use omega_tests::fuzz::words::{ends_in_toml, mutate};
use omega_tests::random::Dice;

const ROUNDS: u64 = 4000;

const ALONE: &str = r#"
dir = "cell"
listen = "127.0.0.1:7600"
advertise = "10.0.0.1:7600"
web-listen = "127.0.0.1:7601"
kinds = ["licence", "cloud-disk=bytes"]
machine-timeout = 40
eviction-rate = 10
slow-commit = 500
log-level = "warn,omega_service=debug"
log-format = "json"
otlp-endpoint = "http://127.0.0.1:4317"
trace-fraction = 0.01
[limits]
calls = 1024
streams-each = 256
header-bytes = 16384
message-bytes = 4194304
handshake-seconds = 5
call-seconds = 5
call-seconds-max = 60
"#;

const REPLICA: &str = r#"
dir = "cell"
cell-name = "prod"
cell-generation = 1
replica = 2
peers = ["1=127.0.0.1:7701", "2=127.0.0.1:7702", "3=127.0.0.1:7703"]
peer-listen = "127.0.0.1:7702"
bootstrap = true
insecure = true
"#;

#[test]
fn mutated_settings_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("omega.toml");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        SourceSettings::default().resolve(Some(&path)).map_err(|why| why.to_string())
    };
    for text in [ALONE, REPLICA] {
        read(text).unwrap_or_else(|why| panic!("the file itself is refused: {why}"));
        let (mut taken, mut refused) = (0, 0);
        for seed in 0..ROUNDS {
            let mutated = mutate(text, ends_in_toml, &mut Dice::new(seed));
            match read(&mutated) {
                Ok(_) => taken += 1,
                Err(why) => {
                    assert!(!why.is_empty() && !why.contains('\n'), "seed {seed}: {why:?}");
                    refused += 1;
                }
            }
        }
        assert!(taken > ROUNDS / 100 && refused > ROUNDS / 10, "{taken} taken, {refused} refused");
    }
}
