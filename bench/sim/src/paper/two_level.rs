//! Two-level scheduling by offers: the paper's result that a slow framework locks nearly all
//! resources while it decides, and starves the others.

use super::found::Found;
use super::runs::{CellPair, SHARED};
use super::sections::{DECISIONS_S, OBJECTIVE_S, check, line, table};
use super::setting::{Setting, USUAL};
use crate::compat::Architecture;
use crate::engine::DecisionTime;
use crate::page::{Section, figure};
use crate::plot::{Axis, Plot};

/// Repeats Figure 7 of the paper.
pub(super) fn run(lab: &CellPair) -> Section {
    let sweep = |architecture| {
        DECISIONS_S.map(|job_s| Setting {
            service: DecisionTime { job_s, ..USUAL },
            ..Setting::of(architecture)
        })
    };
    let all = lab.run(&[sweep(Architecture::TwoLevel), sweep(SHARED)].concat());
    let (offers, shared) = all.split_at(DECISIONS_S.len());
    let x = || Axis::log("decision time of a service job, seconds");
    let over = |name: &str, found: &[Found], value: &dyn Fn(&Found) -> f64| {
        line(name, &DECISIONS_S, found.iter().map(value))
    };
    let wait = |found: &Found| found.batch.wait_s.max(0.01);
    let waits = Plot::new("Wait of batch jobs", x(), Axis::log("mean wait, seconds"))
        .line(over("offers", offers, &wait))
        .line(over("shared state", shared, &wait))
        .guide(OBJECTIVE_S, "30 s");
    let given_up = |found: &Found| found.batch.abandoned + found.service.abandoned;
    let abandoned = Plot::new("Abandoned jobs", x(), Axis::linear("jobs"))
        .line(over("offers", offers, &given_up))
        .line(over("shared state", shared, &given_up));
    let column = |found: &[Found], value: &dyn Fn(&Found) -> f64| {
        found.iter().map(value).collect::<Vec<f64>>()
    };
    let last = DECISIONS_S.len() - 1;
    let early = offers[..4].iter().map(given_up).fold(0.0, f64::max);
    Section {
        prose: vec![
            "In the paper, a framework with slow decisions holds the offer of nearly all free resources meanwhile. The batch \
             framework sees what little is left, tries again and again, and gives jobs up. A framework may hold several offers at \
             once, as in the open simulator, so its busyness can exceed 1."
                .to_owned(),
        ],
        checks: vec![
            check(
                "Where decisions are slow, jobs are given up",
                given_up(&offers[last]) > 100.0,
                format!("{} at 100 s", figure(given_up(&offers[last]))),
            ),
            check("Where they are quick, almost none is", early < 20.0, format!("at most {} up to 0.3 s", figure(early))),
            check(
                "With shared state, none is at any decision time",
                shared.iter().all(|found| given_up(found) < 10.0),
                format!("at most {}", figure(shared.iter().map(given_up).fold(0.0, f64::max))),
            ),
            check(
                "Batch jobs wait longer for offers than with shared state",
                offers.iter().zip(shared).all(|(offers, shared)| offers.batch.wait_s > shared.batch.wait_s),
                format!("{} s against {} s at 10 s", figure(offers[6].batch.wait_s), figure(shared[6].batch.wait_s)),
            ),
        ],
        plots: vec![("fig7-wait".to_owned(), waits), ("fig7-abandoned".to_owned(), abandoned)],
        tables: vec![table("Offers", "t_job(service), s", &DECISIONS_S, &[
            ("batch wait, s", column(offers, &|found| found.batch.wait_s)),
            ("service wait, s", column(offers, &|found| found.service.wait_s)),
            ("batch busyness", column(offers, &|found| found.batch.busy)),
            ("service busyness", column(offers, &|found| found.service.busy)),
            ("given up", column(offers, &given_up)),
            ("given up, shared", column(shared, &given_up)),
        ])],
        ..Section::default()
    }
}
