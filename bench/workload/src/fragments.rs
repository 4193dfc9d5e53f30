//! Fragmentation: the share of the free amounts that is on machines where tasks with the counted requests do not fit.
//!
//! (Weng et al., "Beware of Fragmentation", ATC 2023, measure fragmentation of devices; here it is measured for any
//! kind.)

use omega_cellstate::Cell;
use omega_core::{Amounts, DeviceRequest, KindId, TaskGroup};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Maximum number of distinct requests that are counted; later ones are ignored.
const REQUESTS_MAX: usize = 4096;

/// Maximum number of requests for which fragmentation is computed: the most frequent ones.
const TOLD_MAX: usize = 256;

/// A request: amounts, and devices.
type Request = (Amounts, Option<DeviceRequest>);

/// For each distinct request, the number of tasks that have it.
#[derive(Clone, Debug, Default)]
pub struct Requests(HashMap<Request, u64>);

impl Requests {
    /// Counts the tasks of a group.
    pub fn note(&mut self, group: &TaskGroup) {
        let request = (group.request.clone(), group.devices);
        let room = self.0.len() < REQUESTS_MAX;
        match self.0.get_mut(&request) {
            Some(count) => *count += u64::from(group.count),
            None if room => _ = self.0.insert(request, u64::from(group.count)),
            None => {}
        }
    }

    /// The most frequent requests, with the number of their tasks.
    fn most_frequent(&self) -> Vec<(&Request, u64)> {
        let mut requests: Vec<_> = self.0.iter().map(|(r, count)| (r, *count)).collect();
        let order = |request: &Request| (request.0.as_slice().to_vec(), request.1.map(|c| c.count));
        requests.sort_by_key(|(request, count)| (Reverse(*count), order(request)));
        requests.truncate(TOLD_MAX);
        requests
    }

    /// Returns the fragmentation of each kind: the share of its free amount that is on machines where a task does not
    /// fit, as the mean over the tasks that request the kind. Only the most frequent requests are considered. The
    /// fragmentation is `None` if nothing of the kind is free, or no task requests it.
    #[must_use]
    pub fn fragmented(&self, cell: &Cell) -> Vec<Option<f64>> {
        let requests = self.most_frequent();
        let kinds = cell.kinds().count();
        let (mut useless, mut free) = (vec![0.0; kinds], vec![0.0; kinds]);
        for machine in cell.machines() {
            let has = |kind: usize| machine.free[kind].max(0) as f64;
            (0..kinds).for_each(|kind| free[kind] += has(kind));
            for ((request, devices), tasks) in &requests {
                let fits = request.iter().all(|(kind, amount)| {
                    machine.free.get(kind.index()).is_some_and(|free| *free >= amount as i64)
                });
                let enough = devices.is_none_or(|devices| {
                    let has = |left: &&i16| **left >= devices.milli_each as i16;
                    machine.devices_left.iter().filter(has).count() >= usize::from(devices.count)
                });
                if !fits || !enough {
                    let kinds = request.iter().map(|(kind, _)| kind.index());
                    kinds.for_each(|kind| useless[kind] += has(kind) * *tasks as f64);
                }
            }
        }
        let asked = |kind: usize| {
            let asks = |((request, _), _): &&(&Request, u64)| request.get(KindId(kind as u8)) > 0;
            requests.iter().filter(asks).map(|(_, tasks)| *tasks as f64).sum::<f64>()
        };
        let share = |kind: usize| {
            let whole = free[kind] * asked(kind);
            (whole > 0.0).then(|| useless[kind] / whole)
        };
        (0..kinds).map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Command, Kinds, Machine};

    #[test]
    fn what_is_free_where_a_task_does_not_fit_is_of_no_use_to_it() {
        let mut cell = Cell::new(Kinds::standard());
        for (name, amounts) in [("large", [3000, 8]), ("small", [1000, 8])] {
            let machine = Machine::new(name, Amounts::new(amounts));
            cell.apply(Command::RegisterMachine(machine)).unwrap();
        }
        let mut requests = Requests::default();
        requests.note(&TaskGroup::new(3, Amounts::new([500])));
        requests.note(&TaskGroup::new(1, Amounts::new([2000, 1])));
        // For one task in four, a quarter of the processors is unusable; only that task requests memory.
        let told = requests.fragmented(&cell);
        assert_eq!(told, [Some(0.0625), Some(0.5), None, None]);
    }
}
