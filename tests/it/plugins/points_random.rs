//! Plugins with random answers at every point, in a random world with connections that break. No claim is left over,
//! every reservation ends once, and in the end every task that fits is placed.

use crate::cell::histories::seeds;
use crate::cell::small::{LONG, cell_that_remembers, run};
use crate::plugins::points_fixtures::{Ledger, Says, with_both};
use crate::scheduling::scheduler_faults::{Turmoil, check_the_end};
use omega_core::TaskId;
use omega_schedulers::{Nanos, Profile, Scheduler, Search, Settings, Unobserved};
use omega_tests::faulty::FaultyCell;
use omega_tests::random::Dice;
use std::collections::BTreeSet;

/// A scheduler with its plugins.
struct Player {
    scheduler: Scheduler,
    ledger: Ledger,
    says: Says,
}

impl Player {
    fn new(handle: &FaultyCell, seed: u64, index: u32, dice: &mut Dice) -> Player {
        let (ledger, says) = (Ledger::default(), Says::default());
        says.lines().mood = Some(Dice::new(seed + 1000 * u64::from(index)));
        let base = dice.pick(&[Profile::service, Profile::batch, Profile::first_fit])();
        let profile = with_both(base, &ledger, &says);
        let settings = Settings::worker("x", index, 2).with_seed(seed);
        let search = [Search::Full, Search::Indexed { feasible: 2 }];
        let mut settings = settings.with_search(*dice.pick(&search));
        settings.claims_max = *dice.pick(&[1, 3, 100]);
        settings.commits_in_flight = *dice.pick(&[1, 2, 5]);
        let scheduler = Scheduler::new(handle, profile, settings).unwrap();
        Player { scheduler, ledger, says }
    }

    /// Checks that each reserved task waits for a permit, or is in a transaction that has no answer yet.
    fn check_the_book(&mut self, handle: &FaultyCell, seed: u64) {
        let mut expected: BTreeSet<TaskId> =
            self.scheduler.waiting().list().iter().map(|waits| waits.task).collect();
        assert_eq!(expected.len(), self.scheduler.view().deferred_claims(), "seed {seed}");
        assert_eq!(expected.len(), self.scheduler.queue().held_tasks(), "seed {seed}");
        if let Some(id) = self.scheduler.unanswered() {
            let sent = handle.sent();
            let txn = sent.iter().rfind(|txn| txn.id == id).unwrap();
            expected.extend(txn.claims.iter().map(|claim| claim.task));
        }
        assert_eq!(self.ledger.book().open, expected, "seed {seed}");
    }
}

#[test]
fn nothing_leaks_whatever_plugins_say_and_connections_do() {
    let (mut unreserved, mut bound) = (0, 0);
    for seed in seeds(150) {
        let mut dice = Dice::new(seed);
        let changes = *dice.pick(&[1, 4, 20, 1000]);
        let cell = cell_that_remembers(changes, &[8, 8, 8]);
        let handle = FaultyCell::new(&cell, seed, *dice.pick(&[0, 20, 50]));
        let mut players: Vec<_> =
            (0..2).map(|index| Player::new(&handle, seed, index, &mut dice)).collect();
        let mut turmoil = Turmoil::new(&cell, dice);
        for round in 0..60 {
            turmoil.step();
            for player in &mut players {
                let _ = player.scheduler.step(&handle, round * 700_000, &mut Unobserved);
                player.check_the_book(&handle, seed);
            }
        }
        handle.heal();
        let settle = |players: &mut Vec<Player>, rounds: std::ops::Range<Nanos>| {
            for round in rounds {
                for player in &mut *players {
                    player.says.lines().mood = None;
                    run(&mut player.scheduler, &handle, round * LONG);
                }
            }
        };
        settle(&mut players, 1..12);
        for player in &mut players {
            player.check_the_book(&handle, seed);
            let book = player.ledger.book();
            assert!(book.open.is_empty(), "seed {seed}: {:?}", book.open);
            assert_eq!(book.reserved, book.unreserved + book.bound, "seed {seed}");
            unreserved += book.unreserved;
            bound += book.bound;
        }
        let mut schedulers: Vec<_> = players.into_iter().map(|player| player.scheduler).collect();
        check_the_end(&cell, &mut schedulers, seed);
    }
    assert!(unreserved > 500 && bound > 500, "it is tried often: {unreserved}, {bound}");
}
