//! Demand that varies over the day, in a view.

use crate::index::need::Need;
use crate::state::demand_profiles::{DemandProfileSum, DemandProfiles};
use crate::view::View;
use crate::view::block::{Block, filter_bits};
use crate::view::day_columns::Room;
use omega_core::KindId;
use smallvec::SmallVec;

impl View {
    /// Whether any placed task has a demand profile.
    #[must_use]
    pub fn any_demand_profiles(&self) -> bool {
        self.rows.any_demand_profiles()
    }

    /// The sum of the demand profiles of the tasks in a row, including own claims; `None` if no task has one.
    #[must_use]
    pub fn demand_profiles_on(&self, row: usize) -> Option<&DemandProfileSum> {
        self.rows.demand_profiles(row)
    }

    /// The amount of a kind that one more task of this need would take from the machine in a row. This amount is the
    /// request; if the need has a demand profile for the kind, it is the rise of the highest point of the machine's
    /// profile sum.
    #[must_use]
    pub fn taken(&self, row: usize, need: &Need, kind: KindId) -> i64 {
        let varying =
            need.demand_profiles.as_ref().and_then(|c| c.taken(kind, self.demand_profiles_on(row)));
        varying.unwrap_or_else(|| requested(need, kind))
    }

    /// The amount of a kind that the machine in a row would get back if a placed task of this need left it.
    #[must_use]
    pub fn freed(&self, row: usize, need: &Need, kind: KindId) -> i64 {
        let varying =
            need.demand_profiles.as_ref().and_then(|c| c.freed(kind, self.demand_profiles_on(row)));
        varying.unwrap_or_else(|| requested(need, kind))
    }

    /// Whether the machine in a row has room for a task.
    fn has_room(&self, row: usize, need: &Need, request: &[i64]) -> bool {
        (0..).map(KindId).zip(request).all(|(kind, request)| {
            need.fits(kind, *request, self.free(row, kind), self.demand_profiles_on(row))
        })
    }
}

fn requested(need: &Need, kind: KindId) -> i64 {
    need.request.get(kind.index()).copied().unwrap_or(0)
}

impl Block<'_> {
    /// The machines in `among` with room for a task. Kinds whose amount in `request` is zero are ignored.
    #[must_use]
    pub fn room_among(&self, need: &Need, request: &[i64], among: u64) -> u64 {
        let fits = self.fits_among(request, among);
        let Some(profiles) = &need.demand_profiles else { return fits };
        // The request is the highest point of the profile. The profile may fit although the request does not, because
        // other tasks may have their highest points at other times.
        let room = self.room_by_bounds(profiles, request, among & !fits);
        let has_room = |lane| self.view().has_room(self.first_row() + lane, need, request);
        fits | room.certain | filter_bits(room.possible & !room.certain, has_room)
    }

    /// The machines in `among` with room, as far as bounds of the demand profiles decide it.
    fn room_by_bounds(&self, profiles: &DemandProfiles, request: &[i64], among: u64) -> Room {
        let mut room = Room { certain: among, possible: among };
        let mut constant: SmallVec<[i64; 4]> = SmallVec::from_slice(request);
        for curve in profiles.curves() {
            let kind = curve.kind();
            if let Some(request) = constant.get_mut(kind.index()).filter(|request| **request > 0) {
                let day = self.view().rows.day().room(self.index(), curve, self.free(kind));
                room.certain &= day.certain;
                room.possible &= day.possible;
                *request = 0;
            }
        }
        let fits = self.fits_among(&constant, room.possible);
        Room { certain: room.certain & fits, possible: fits }
    }
}
