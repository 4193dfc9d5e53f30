//! A scheduler on a served cell. It places the jobs that name it, and ends when no task of the job `hello` is pending.
//!
//! ```console
//! $ omega serve --memory &
//! $ omega machine add m1 --cpu 4 --memory 8GiB
//! $ omega job submit hello --count 3 --cpu 0.5 --scheduler mine
//! $ cargo run -p omega-cell --features client --example remote -- 127.0.0.1:7600
//! ```

#![allow(
    clippy::disallowed_methods,
    reason = "a program on a served cell has the clock of its machine"
)]

use omega_cell::client::{Address, RemoteCell};
use omega_cell::{Profile, Scheduler, Settings, Unobserved};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(address) = std::env::args().nth(1) else {
        println!("usage: remote HOST:PORT");
        return Ok(());
    };
    let cell = RemoteCell::connect(&Address::plain([address]))?;
    let mut scheduler = Scheduler::new(&cell, Profile::service(), Settings::new("mine"))?;
    let began = Instant::now();
    let mut placed = 0;
    while began.elapsed() < Duration::from_secs(10) {
        let now = began.elapsed().as_nanos() as u64;
        placed += scheduler.step(&cell, now, &mut Unobserved)?.placed;
        if placed > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("placed {placed} tasks");
    Ok(())
}
