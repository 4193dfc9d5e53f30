//! The machine index: descriptions and sets of machines, and the compiled needs of task groups.

pub mod machine_index;
pub mod need;
pub mod sets;
pub mod shapes;
