//! Reading of text files: tables, numbers, names and JSON paths.

pub mod amount;
pub mod compressed;
pub mod decimal;
pub(crate) mod json_path;
pub mod readable;
pub mod table;
pub mod words;
