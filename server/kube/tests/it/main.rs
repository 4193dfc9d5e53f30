//! Tests of the adapter against a double of the API server, without a network.

mod double;
mod pairs;
mod random;
mod replay;
mod rules;
