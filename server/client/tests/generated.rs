//! `src/generated` is the code that `proto` generates. `OMEGA_BLESS=1` writes it again.

use prost::Message;
use std::path::Path;

#[test]
fn the_generated_code_is_up_to_date() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["types", "scheduling", "cell", "agent", "peer"]
        .map(|name| format!("omega/v1/{name}.proto"));
    let descriptors = protox::compile(files, [here.join("proto")])?;
    let out = tempfile::tempdir()?;
    // For the reflection service, which lists the API to gRPC tools.
    std::fs::write(out.path().join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().out_dir(out.path()).compile_fds(descriptors)?;
    for name in ["descriptors.bin", "omega.v1.rs"] {
        let kept = here.join("src/generated").join(name);
        let new = std::fs::read(out.path().join(name))?;
        if std::env::var_os("OMEGA_BLESS").is_some() {
            std::fs::write(&kept, new)?;
        } else {
            let is_equal = std::fs::read(&kept)? == new;
            assert!(is_equal, "{name} differs from what proto generates; OMEGA_BLESS=1 writes it");
        }
    }
    Ok(())
}
