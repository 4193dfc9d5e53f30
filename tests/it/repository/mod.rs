//! The rules of the repository: its files, dependencies and documents.
//!
//! - `supply_chain.rs`: sources, licenses and accepted advisories of the dependencies.
//! - `book.rs`, `tidy.rs`, `structure.rs`: the documentation as a book, and the repository's own rules.
//! - `circles.rs`: circles of imports.
//! - `json_schema.rs`: a validator for the schemas of the documents.

pub(crate) mod book;
pub(crate) mod circles;
pub(crate) mod json_schema;
pub(crate) mod structure;
pub(crate) mod supply_chain;
pub(crate) mod tidy;
