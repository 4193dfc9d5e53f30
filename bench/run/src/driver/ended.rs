//! The parts of a run after its end, from which its report is made: the cell, the workers, and the time taken.

use crate::clients::Served;
use crate::driver::feeder::Fed;
use crate::kept::Kept;
use crate::meter::Meter;
use omega_schedulers::Worker;

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) fed: Fed,
    pub(crate) kept: Option<Box<dyn Kept>>,
    pub(crate) workers: Vec<Worker<Meter>>,
    pub(crate) served: Vec<Served>,
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: Option<f64>,
}
