//! The simulator of cells: architectures, policies and traces.
//!
//! - [`engine`]: one loop of events, written once for every architecture and every kind of cell;
//! - [`mod@reference`]: the cell of the reference simulator;
//! - [`shipped`]: the cell that is shipped, with its views, placer and plugins;
//! - [`scenario`]: a workload on it under an architecture, and what came of it;
//! - [`capacity`]: how large a cell must be, searched for by such runs;
//! - [`what_if`]: a cell as it is, and otherwise;
//! - [`compat`]: its published runs, made again;
//! - [`paper`]: the figures of the Omega paper;
//! - [`swf`]: batch queues on logs; [`fgd`]: tasks that share devices;
//! - [`trace`]: what is told of traces, and made after them;
//! - [`plot`], [`sheet`] and [`page`]: what is shown of results;
//! - [`command`]: the verbs of `omega sim`.

pub mod capacity;
pub mod command;
pub mod compat;
pub mod engine;
pub mod fgd;
pub mod page;
pub mod paper;
pub mod plot;
pub mod reference;
pub mod scenario;
pub mod sheet;
pub mod shipped;
pub mod swf;
pub mod trace;
pub mod what_if;
