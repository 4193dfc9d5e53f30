//! Network messages: round trips over random histories of the cell.
//!
//! `OMEGA_SEED=7 cargo test -p omega-tests messages` runs a single history.

use crate::cell::histories::seeds;
use crate::cell::views::{World, assert_equal_views};
use omega_cellstate::{Delta, Interest, Share, View};
use omega_client::{convert, proto};
use omega_core::{
    Command, Commit, Job, Machine, Outcome, SchedulerId, Transaction, Version, bytes_at_most,
};
use omega_tests::history;
use prost::Message;
use std::sync::Arc;

/// A message, encoded and decoded.
fn through<M: Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).expect("what was encoded can be decoded")
}

/// Encodes a delta as messages of at most this many bytes, and joins them again.
fn through_pieces(delta: &Delta, bytes: usize) -> Delta {
    let mut whole: Option<proto::Delta> = None;
    for piece in convert::split(delta.into(), bytes) {
        let piece = through(&piece);
        match &mut whole {
            Some(whole) => convert::join(whole, piece),
            None => whole = Some(piece),
        }
    }
    let whole = whole.expect("there is at least one piece");
    assert!(!whole.more);
    convert::delta(whole).expect("it was a delta")
}

/// The delta as schedulers get it: without programs and payloads, which only roles of the tenant may read.
fn without_programs(delta: &Delta) -> Delta {
    let mut delta = delta.clone();
    for job in delta.jobs.iter_mut().filter_map(|of| of.job.as_mut()) {
        for group in &mut Arc::make_mut(job).groups {
            (group.run, group.payload) = (None, Default::default());
        }
    }
    delta
}

#[test]
fn a_delta_comes_out_as_it_went_in() {
    for seed in seeds(60) {
        let mut world = World::new(seed);
        let interests =
            [Interest::AllJobs, Interest::Machines, Interest::JobsOf("default".into(), Share::ALL)];
        let mut read = interests.map(|interest| (interest, Version(0), Delta::default()));
        for _ in 0..150 {
            world.step();
            for (interest, since, delta) in &mut read {
                if world.dice.below(3) > 0 {
                    continue;
                }
                world.cell.read(|cell| cell.delta_since(*since, interest, delta));
                let bytes = [50, 500, convert::PIECE_BYTES][world.dice.below(3)];
                assert_eq!(through_pieces(delta, bytes), without_programs(delta), "seed {seed}");
                assert_eq!(convert::interest(convert::interested(interest)), *interest);
                *since = delta.to;
            }
        }
    }
}

#[test]
fn two_deltas_are_one() {
    for seed in seeds(100) {
        let mut world = World::new(seed);
        let mut view = View::new(SchedulerId(0), 0);
        let mut since = Version(0);
        let mut delta = Delta::default();
        let mut gathered: Option<Delta> = None;
        for _ in 0..200 {
            world.step();
            if world.dice.below(3) == 0 {
                world.cell.read(|cell| cell.delta_since(since, &Interest::Machines, &mut delta));
                since = delta.to;
                match &mut gathered {
                    Some(gathered) => gathered.append(delta.clone()),
                    None => gathered = Some(delta.clone()),
                }
            }
            if since == world.cell.read(omega_cellstate::Cell::version)
                && let Some(gathered) = gathered.take()
            {
                assert_eq!(gathered.now_ms, delta.now_ms, "seed {seed}: the time of the last one");
                view.apply(&gathered);
                assert_eq!(view.now_ms(), delta.now_ms, "seed {seed}");
                assert_equal_views(&world, &mut view);
            }
        }
    }
}

#[test]
fn every_command_comes_out_as_it_went_in() {
    for seed in seeds(60) {
        let (kinds, commands) = history::commands(seed, 200);
        let list = convert::kind_list(&kinds);
        assert_eq!(convert::kinds(list).expect("they were kinds"), kinds);
        let mut cell = omega_cellstate::Cell::new(kinds);
        for command in commands {
            // Encoding omits empty names, so it may change a command that has one. The cell rejects such commands.
            let Ok(outcome) = cell.apply(command.clone()) else { continue };
            match &command {
                Command::SubmitJob(job) => {
                    let message = proto::Job::from(job);
                    assert!(message.encoded_len() <= bytes_at_most(job), "seed {seed}: {job:?}");
                    let back = Job::try_from(through(&message));
                    assert_eq!(back.as_ref(), Ok(job), "seed {seed}");
                }
                Command::RegisterMachine(machine) => {
                    let message = proto::Machine::from(machine);
                    assert!(message.encoded_len() <= bytes_at_most(machine), "seed {seed}");
                    let back = Machine::try_from(through(&message));
                    assert_eq!(back.as_ref(), Ok(machine), "seed {seed}");
                }
                Command::Commit(txn) => {
                    let back = Transaction::try_from(through(&proto::CommitRequest::from(txn)));
                    assert_eq!(back.as_ref(), Ok(txn), "seed {seed}");
                }
                Command::Reserve(reservation) => {
                    let bytes = proto::Reservation::from(reservation).encoded_len();
                    assert!(bytes <= bytes_at_most(reservation), "seed {seed}: {reservation:?}");
                }
                Command::SetPeaks(calendar) => {
                    let bytes = proto::PeakCalendar::from(calendar).encoded_len();
                    assert!(bytes <= bytes_at_most(calendar), "seed {seed}: {calendar:?}");
                }
                _ => {}
            }
            if let Outcome::Commit(commit) = outcome {
                let back = Commit::try_from(through(&proto::CommitResponse::from(&commit)));
                assert_eq!(back, Ok(commit), "seed {seed}");
            }
        }
    }
}

#[test]
fn a_large_delta_travels_in_small_pieces() {
    use omega_cellstate::{Cell, SharedCell};
    use omega_core::{Amounts, Kinds, TaskGroup};
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for i in 0..20_000 {
        let mut machine = Machine::new(format!("machine-{i}"), Amounts::new([4000, 8 << 30]));
        machine.labels = omega_core::Labels::new([("zone", format!("z{}", i % 7))]);
        cell.apply(Command::RegisterMachine(machine)).expect("it is a machine");
    }
    for i in 0..200 {
        let job = Job::batch(format!("job-{i}"), TaskGroup::new(100, Amounts::new([10])));
        cell.apply(Command::SubmitJob(job)).expect("it is a job");
    }
    let mut delta = Delta::default();
    cell.read(|cell| cell.delta_since(Version(0), &Interest::AllJobs, &mut delta));
    let pieces: Vec<proto::Delta> = convert::split((&delta).into(), convert::PIECE_BYTES).collect();
    assert!(pieces.len() > 1);
    let largest = pieces.iter().map(Message::encoded_len).max().expect("there are pieces");
    assert!(largest < 2 * convert::PIECE_BYTES, "{largest} bytes");
    assert_eq!(through_pieces(&delta, convert::PIECE_BYTES), delta);
}

#[test]
fn an_error_keeps_its_code_on_the_way_and_is_in_the_docs() {
    use omega_client::{ApiError, ErrorCode};
    let docs = include_str!("../../../docs/api.md");
    for code in ErrorCode::ALL {
        let mut error = ApiError::new(*code, "say what to do");
        error.version = Some(Version(7));
        error.leader = Some("r2".to_owned());
        let back = ApiError::from(tonic::Status::from(error.clone()));
        assert_eq!(back, error);
        let waits = error.retry_after(std::time::Duration::from_millis(50));
        assert_eq!(ApiError::from(tonic::Status::from(waits.clone())), waits);
        assert!(docs.contains(&format!("`{code}`")), "docs/api.md lacks {code}");
    }
}
