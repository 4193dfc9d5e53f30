//! Waits for events that happen eventually.

use omega_client::ApiError;
use std::time::Duration;

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until a condition holds.
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(PAUSE);
    }
}

/// Repeats a call until it succeeds, because leaders change. The call must be safe to repeat.
pub(crate) fn insist<T>(mut call: impl FnMut() -> Result<T, ApiError>) -> T {
    let mut last = None;
    loop {
        match call() {
            Ok(answer) => return answer,
            Err(error) => {
                let error = format!("{error:?}");
                if last.as_ref() != Some(&error) {
                    println!("repeated after: {error}");
                    last = Some(error);
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}
