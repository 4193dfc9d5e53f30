//! The simulator of cells: architectures, policies and traces.
//!
//! - [`engine`]: the event loop, for every architecture and every kind of cell;
//! - [`mod@reference`]: the cell of the reference simulator;
//! - [`shipped`]: the shipped cell, with its views, placer and plugins;
//! - [`scenario`]: a run of a workload on the shipped cell under an architecture, and its report;
//! - [`capacity`]: capacity planning by a search over such runs;
//! - [`what_if`]: comparison of a cell with a changed one;
//! - [`compat`]: repetition of the reference simulator's published runs;
//! - [`paper`]: the figures of the Omega paper;
//! - [`swf`]: batch queues on logs; [`fgd`]: tasks that share devices;
//! - [`front`]: several cells behind a front;
//! - [`trace`]: statistics of traces, and generation of similar ones;
//! - [`plot`], [`sheet`] and [`page`]: plots, tables and pages of results;
//! - [`command`]: the commands of `omega-sim`.

pub mod capacity;
pub mod command;
pub mod compat;
pub mod engine;
pub mod fgd;
mod free_name;
pub mod front;
mod golden_ratio;
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
