//! The machine index: descriptions and sets of machines, and the compiled needs of task groups.

pub(crate) mod facts;
pub(crate) mod need;
pub(crate) mod sets;
pub(crate) mod shapes;
