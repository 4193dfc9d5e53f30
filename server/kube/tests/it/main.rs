//! Tests of the adapter and of the program against a double of the API server.

#[path = "../double/mod.rs"]
mod double;
mod pairs;
mod process;
mod random;
mod replay;
mod rules;
