//! The `omega` command.

fn main() {}
