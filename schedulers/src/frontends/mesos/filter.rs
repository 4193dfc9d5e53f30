//! Filters: machines and amounts that are not offered to a framework for a time.
//!
//! A framework has at most one filter for each machine: a new filter replaces the old one. So the number of filters
//! is bounded by the number of the cell's rows. An expired filter is dropped when its machine is next examined.

use crate::queue::Nanos;
use foldhash::fast::FixedState;
use omega_core::{Amounts, MachineId};
use std::collections::HashMap;

#[derive(Clone, Debug)]
struct Filter {
    incarnation: u32,
    until: Nanos,
    /// Only offers of at most these amounts are filtered; `None` filters all offers of the machine.
    amounts: Option<Amounts>,
}

/// The filters of one framework.
#[derive(Clone, Debug, Default)]
pub(super) struct Filters(HashMap<u32, Filter, FixedState>);

impl Filters {
    /// Sets the filter of a machine until a time, for all offers or only for offers of at most these amounts.
    pub(super) fn set(&mut self, machine: MachineId, until: Nanos, amounts: Option<Amounts>) {
        let filter = Filter { incarnation: machine.incarnation, until, amounts };
        self.0.insert(machine.slot, filter);
    }

    /// Whether an offer of these amounts is filtered now. Drops an expired filter.
    pub(super) fn refuse(&mut self, machine: MachineId, amounts: &Amounts, now: Nanos) -> bool {
        let Some(filter) = self.0.get(&machine.slot) else { return false };
        if filter.until <= now || filter.incarnation != machine.incarnation {
            self.0.remove(&machine.slot);
            return false;
        }
        filter.amounts.as_ref().is_none_or(|refused| amounts.fits_in(refused))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_ends_with_its_time_with_its_machine_or_with_more_to_offer() {
        let (little, more) = (Amounts::new([4, 4]), Amounts::new([4, 5]));
        let machine = MachineId::first(3);
        let mut filters = Filters::default();
        filters.set(machine, 10, Some(little.clone()));
        assert!(filters.refuse(machine, &little, 9));
        assert!(!filters.refuse(machine, &more, 9), "there is more of a kind now");
        assert!(filters.refuse(machine, &little, 9), "and the filter stays");
        assert!(!filters.refuse(MachineId::first(4), &little, 9));
        assert!(!filters.refuse(machine, &little, 10));
        filters.set(machine, 20, None);
        assert!(filters.refuse(machine, &more, 10));
        let next = MachineId { incarnation: 1, ..machine };
        assert!(!filters.refuse(next, &little, 10), "it is another machine");
        assert!(filters.0.is_empty());
    }
}
