//! Transfers of snapshots: pieces that arrive twice, late, damaged or not at all.

use crate::cell::snapshot_states::rich_snapshot_state;
use crate::storage::snapshot_files::large_snapshot_state;
use crate::storage::snapshot_fixtures::{CELL, FailingDisk, Fault, Folder, Parts, at, meta};
use omega_store::RealDisk;
use omega_store::snapshot::{Accepted, Incoming, Offer, Outgoing, Piece, ReceiveError, Snapshots};
use omega_tests::random::Dice;
use std::sync::Arc;

/// Sends the pieces that are requested, but at most this many.
fn send(outgoing: &Outgoing, incoming: &mut Incoming, pieces: usize) {
    for _ in 0..pieces {
        let Some(wanted) = incoming.wanted() else { break };
        assert_eq!(incoming.accept(&outgoing.piece(wanted).unwrap()).unwrap(), Accepted::Written);
    }
}

#[test]
fn a_snapshot_arrives_over_a_bad_line() {
    let sender = Folder::with(&large_snapshot_state());
    let outgoing = sender.snapshots.outgoing(at(7)).unwrap();
    let pieces = outgoing.offer().pieces();
    assert!(pieces > 4);
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let receiver = Folder::new();
        let mut incoming = receiver.snapshots.receive(outgoing.offer()).unwrap();
        while let Some(wanted) = incoming.wanted() {
            let number = dice.below(pieces as usize + 2) as u64;
            let mut piece = outgoing.piece(number).unwrap();
            if dice.chance(30) && !piece.bytes.is_empty() {
                let mut bytes = piece.bytes.to_vec();
                let place = dice.below(bytes.len());
                bytes[place] ^= 1 << dice.below(8);
                piece.bytes = bytes.into();
                let refused = incoming.accept(&piece);
                assert!(refused.is_err() || number < wanted, "seed {seed}");
                continue;
            }
            match incoming.accept(&piece) {
                Ok(Accepted::Written) => assert_eq!(number, wanted),
                Ok(Accepted::Known) => assert!(number < wanted),
                Err(ReceiveError::Order { given, wanted: w }) => {
                    assert!((given, w) == (number, wanted) && number > wanted);
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        assert_eq!(receiver.newest(), None, "nothing has the final name yet");
        incoming.finish().unwrap();
        assert_eq!(receiver.bytes(7), sender.bytes(7), "seed {seed}");
        assert_eq!(receiver.newest(), Some(at(7)));
    }
}

#[test]
fn receiving_goes_on_after_a_crash_with_what_is_good() {
    let sender = Folder::with(&large_snapshot_state());
    let outgoing = sender.snapshots.outgoing(at(7)).unwrap();
    let bytes = sender.bytes(7);
    for seed in 0..30 {
        let mut dice = Dice::new(seed);
        let receiver = Folder::new();
        let mut incoming = receiver.snapshots.receive(outgoing.offer()).unwrap();
        let count = dice.below(outgoing.offer().pieces() as usize + 1);
        send(&outgoing, &mut incoming, count);
        drop(incoming);
        let name = receiver.names().remove(0);
        let path = receiver.folder.path().join(&name);
        let mut partial = std::fs::read(&path).unwrap();
        // Bytes that were not synced may be lost, changed, or never written.
        let safe = dice.below(partial.len() + 1);
        match dice.below(3) {
            0 => partial.truncate(safe),
            1 => partial[safe..].fill(0),
            _ => partial[safe..].iter_mut().for_each(|byte| *byte ^= 0x5A),
        }
        std::fs::write(&path, partial).unwrap();
        let again = Snapshots::open(Arc::new(RealDisk), receiver.folder.path(), CELL).unwrap();
        let mut incoming = again.receive(outgoing.offer()).unwrap();
        let wanted = incoming.wanted().unwrap_or(outgoing.offer().pieces());
        assert!(wanted as usize <= count, "seed {seed}");
        // All complete chunks before the damage are kept, so the pieces in them are not requested again.
        assert!(wanted + 2 > safe as u64 >> 20, "seed {seed}: {wanted} of {safe} bytes");
        send(&outgoing, &mut incoming, usize::MAX);
        incoming.finish().unwrap();
        assert_eq!(std::fs::read(again.path(at(7))).unwrap(), bytes, "seed {seed}");
    }
}

#[test]
fn what_came_of_another_snapshot_is_removed() {
    let sender = Folder::with(&large_snapshot_state());
    sender.snapshots.save(&meta(8), &large_snapshot_state()).unwrap();
    let receiver = Folder::new();
    let first = sender.snapshots.outgoing(at(7)).unwrap();
    let mut incoming = receiver.snapshots.receive(first.offer()).unwrap();
    send(&first, &mut incoming, 2);
    assert!(matches!(receiver.snapshots.receive(first.offer()), Err(ReceiveError::Busy(_))));
    let error = incoming.finish().unwrap_err();
    assert!(matches!(error, ReceiveError::Incomplete { wanted: 2, .. }), "{error}");
    let second = sender.snapshots.outgoing(at(8)).unwrap();
    let mut incoming = receiver.snapshots.receive(second.offer()).unwrap();
    assert_eq!(incoming.wanted(), Some(0));
    assert_eq!(receiver.names().len(), 1, "one partial file");
    send(&second, &mut incoming, usize::MAX);
    incoming.finish().unwrap();
    assert_eq!(receiver.newest(), Some(at(8)));
    assert_eq!(receiver.names().len(), 1);
}

#[test]
fn a_snapshot_that_is_sent_may_be_replaced_by_newer_ones() {
    let sender = Folder::with(&large_snapshot_state());
    let outgoing = sender.snapshots.outgoing(at(7)).unwrap();
    let also = sender.snapshots.outgoing(at(7)).unwrap();
    assert_eq!(also.offer(), outgoing.offer(), "two peers may have it at once");
    for index in [8, 9, 10] {
        sender.snapshots.save(&meta(index), &rich_snapshot_state()).unwrap();
    }
    assert_eq!(sender.snapshots.list().unwrap(), [at(9), at(10)]);
    let receiver = Folder::new();
    let mut incoming = receiver.snapshots.receive(outgoing.offer()).unwrap();
    send(&outgoing, &mut incoming, usize::MAX);
    incoming.finish().unwrap();
    assert_eq!(receiver.snapshots.load(at(7)).unwrap().1, large_snapshot_state());
}

/// A peer sends another snapshot than it offered.
#[test]
fn what_is_not_what_was_offered_is_thrown_away() {
    let sender = Folder::with(&rich_snapshot_state());
    let good = sender.bytes(7);
    let send_file = |file: &[u8], offer: Offer| {
        let receiver = Folder::new();
        let mut incoming = receiver.snapshots.receive(offer)?;
        let crc = |bytes: &[u8]| {
            let head = [&(offer.hash as u32).to_le_bytes()[..], &[0; 8]].concat();
            crc32fast::hash(&[&head, &(bytes.len() as u32).to_le_bytes()[..], bytes].concat())
        };
        let piece = Piece { number: 0, bytes: file.to_vec().into(), crc: crc(file) };
        incoming.accept(&piece)?;
        let finished = incoming.finish();
        let whole = receiver.names().iter().any(|name| name.ends_with(".snapshot"));
        assert_eq!(finished.is_ok(), whole);
        assert!(whole || receiver.names().is_empty(), "{:?}", receiver.names());
        finished
    };
    let offer = sender.snapshots.outgoing(at(7)).unwrap().offer();
    send_file(&good, offer).unwrap();
    let forged = Offer { hash: 1, ..offer };
    assert!(matches!(send_file(&good, forged), Err(ReceiveError::OtherSnapshot)));
    let elsewhere = Offer { position: at(8), ..offer };
    assert!(matches!(send_file(&good, elsewhere), Err(ReceiveError::Bad(_))));
    let mut foreign = Parts::of(&good);
    foreign.head[16] ^= 1;
    assert!(matches!(send_file(&foreign.sealed(), offer), Err(ReceiveError::Bad(_))));
    let mut damaged = good.clone();
    damaged[200] ^= 1;
    assert!(matches!(send_file(&damaged, offer), Err(ReceiveError::Bad(_))));
    assert!(matches!(send_file(&good[1..], offer), Err(ReceiveError::Piece(0))));
    let none = Offer { bytes: 3, ..offer };
    assert!(matches!(send_file(&good, none), Err(ReceiveError::Offer(3))));
    let endless = Offer { bytes: u64::MAX, ..offer };
    assert!(matches!(send_file(&good, endless), Err(ReceiveError::Piece(0))));
}

#[test]
fn a_full_disk_stops_receiving_until_there_is_room() {
    let sender = Folder::with(&large_snapshot_state());
    let outgoing = sender.snapshots.outgoing(at(7)).unwrap();
    let receiver = Folder::new();
    let disk = Arc::new(FailingDisk::new(2, Fault::Full));
    let full = Snapshots::open(disk, receiver.folder.path(), CELL).unwrap();
    let mut incoming = full.receive(outgoing.offer()).unwrap();
    send(&outgoing, &mut incoming, 2);
    let error = incoming.accept(&outgoing.piece(2).unwrap()).unwrap_err();
    assert!(matches!(error, ReceiveError::Full(_)), "{error}");
    assert_eq!(incoming.wanted(), Some(2));
    drop(incoming);
    let mut incoming = receiver.snapshots.receive(outgoing.offer()).unwrap();
    assert!(incoming.wanted() > Some(0), "what came before is not sent again");
    send(&outgoing, &mut incoming, usize::MAX);
    incoming.finish().unwrap();
    assert_eq!(receiver.newest(), Some(at(7)));
}
