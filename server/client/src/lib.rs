//! What a program needs to speak to a cell.

pub mod connect;
pub mod convert;
pub mod error;
pub mod proto;
mod remote;

pub use connect::{Address, Tls};
pub use error::{ApiError, ErrorCode};
pub use remote::RemoteCell;
