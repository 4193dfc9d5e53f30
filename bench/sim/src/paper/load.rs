//! A higher load of batch jobs: the load at which one scheduler saturates, and the gain from several schedulers.

use super::found::Found;
use super::runs::{CellPair, LOADS, SHARED};
use super::sections::{OBJECTIVE_S, TWO_CELLS, check, check_on, line, pairs, table};
use super::setting::{CellSize, Setting};
use crate::engine::DecisionTime;
use crate::page::{Check, Section, figure};
use crate::plot::{Axis, Plot, Style};

/// Decision time of one second per job. With it, a scheduler of a large cell is busy a quarter of the time at the usual
/// load.
const SLOW: DecisionTime = DecisionTime { job_s: 1.0, task_s: 0.005 };
const LOAD: &str = "batch jobs, as a multiple of the usual number";

fn setting(load: u32, batch_schedulers: u32) -> Setting {
    Setting { cell: CellSize::Large, batch: SLOW, load, batch_schedulers, ..Setting::of(SHARED) }
}

/// Repeats Figure 8 of the paper.
pub(super) fn saturation(lab: &CellPair) -> Section {
    let found = lab.run(&LOADS.map(|load| setting(load, 1)));
    let xs = LOADS.map(f64::from);
    let busy = Plot::new("Busyness of schedulers", Axis::linear(LOAD), Axis::share("busyness"))
        .line(line("batch", &xs, found.iter().map(|found| found.batch.busy)))
        .line(
            line("service", &xs, found.iter().map(|found| found.service.busy))
                .styled(Style::Dashed),
        );
    let waits = Plot::new("Wait of jobs", Axis::linear(LOAD), Axis::log("mean wait, seconds"))
        .line(line("batch", &xs, found.iter().map(|found| found.batch.wait_s.max(0.01))))
        .line(
            line("service", &xs, found.iter().map(|found| found.service.wait_s.max(0.01)))
                .styled(Style::Dashed),
        )
        .guide(OBJECTIVE_S, "30 s");
    let expected = 1.0 / found[0].batch.busy;
    let saturated = found.iter().position(|found| found.batch.busy > 0.98).map(|index| xs[index]);
    let service = found.iter().map(|found| found.service.wait_s).fold(0.0, f64::max);
    let column = |value: &dyn Fn(&Found) -> f64| found.iter().map(value).collect::<Vec<f64>>();
    Section {
        prose: vec![
            "In the paper, a cell with shared state takes 2.5 to 9.5 times its batch jobs before the batch scheduler is always \
             busy; service jobs do not notice. Here a decision on a batch job takes a second."
                .to_owned(),
        ],
        checks: vec![
            check(
                "The batch scheduler saturates where its busyness at the usual load says",
                saturated.is_some_and(|at| (at - expected).abs() <= 1.0),
                format!("expected at {} times, all the time busy from {} times", figure(expected), saturated.map_or("none".to_owned(), figure)),
            ),
            check("The wait of service jobs does not change", service < 0.1, format!("their mean \
                 wait is {} s at most", figure(service))),
        ],
        plots: vec![("fig8-busyness".to_owned(), busy), ("fig8-wait".to_owned(), waits)],
        tables: vec![table("One batch scheduler", "load", &xs, &[
            ("batch busyness", column(&|found| found.batch.busy)),
            ("batch wait, s", column(&|found| found.batch.wait_s)),
            ("90 % wait less, s", column(&|found| found.batch.wait_p90_s)),
            ("service wait, s", column(&|found| found.service.wait_s)),
            ("batch jobs placed", column(&|found| found.batch.placed)),
        ])],
        ..Section::default()
    }
}

/// Numbers of batch schedulers that are compared.
const SCHEDULERS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Loads that are compared, as multiples of the usual load.
const COMPARED: [u32; 3] = [1, 2, 4];

/// Repeats Figure 9 of the paper.
pub(super) fn schedulers(lab: &CellPair) -> Section {
    let settings: Vec<Setting> = COMPARED
        .iter()
        .flat_map(|&load| SCHEDULERS.map(|schedulers| setting(load, schedulers)))
        .collect();
    let both = lab.run_both(&settings);
    let xs = SCHEDULERS.map(f64::from);
    let column = |which: usize, value: &dyn Fn(&Found) -> f64| {
        both.each().map(|(_, _, all)| {
            let found = &all[which * SCHEDULERS.len()..][..SCHEDULERS.len()];
            found.iter().map(value).collect::<Vec<f64>>()
        })
    };
    let last = SCHEDULERS.len() - 1;
    let at = |which: usize| column(2, &|found| found.batch.conflicts).map(|found| found[which]);
    let (two, most) = (at(1), at(last));
    Section {
        prose: vec![
            "In the paper, up to 32 batch schedulers share the load: each is less busy, while conflicts grow with their number."
                .to_owned(),
            TWO_CELLS.to_owned(),
            format!(
                "A finding: with few schedulers the shipped cell has fewer conflicts, since each begins to look in a home of its own; \
                 with many it has more. At four times the load, two schedulers meet {} and {} conflicts for each clean transaction \
                 (reference and shipped), and 32 meet {} and {}: homes are small then, a search for 64 machines leaves them, and two that look at \
                 the same machines want the same best one, where random first fit seldom does.",
                figure(two[0]),
                figure(two[1]),
                figure(most[0]),
                figure(most[1])
            ),
        ],
        checks: both.each().into_iter().flat_map(|(_, cell, all)| checks(cell, all)).collect(),
        plots: both.each().into_iter().flat_map(|(ending, cell, all)| plots(ending, cell, all)).collect(),
        tables: vec![
            pairs("Busyness of a batch scheduler", "schedulers", &xs, &[
                ("1x", column(0, &|found| found.batch.busy)),
                ("2x", column(1, &|found| found.batch.busy)),
                ("4x", column(2, &|found| found.batch.busy)),
            ]),
            pairs("Conflicts of the batch schedulers", "schedulers", &xs, &[
                ("1x", column(0, &|found| found.batch.conflicts)),
                ("2x", column(1, &|found| found.batch.conflicts)),
                ("4x", column(2, &|found| found.batch.conflicts)),
            ]),
            pairs("Mean wait of batch jobs at four times the load, seconds", "schedulers", &xs, &[(
                "4x",
                column(2, &|found| found.batch.wait_s),
            )]),
        ],
        ..Section::default()
    }
}

/// Plots Figure 9 for one cell.
fn plots(ending: &str, cell: &str, all: &[Found]) -> [(String, Plot); 2] {
    let xs = SCHEDULERS.map(f64::from);
    let x = || Axis::log("batch schedulers");
    let mut busy = Plot::new(
        format!("Busyness of each scheduler: {cell} cell"),
        x(),
        Axis::share(
            "mean \
             busyness",
        ),
    );
    let mut conflicts = Plot::new(
        format!("Conflicts of the schedulers: {cell} cell"),
        x(),
        Axis::linear("conflicts for each clean transaction"),
    );
    for (load, found) in COMPARED.iter().zip(all.chunks(SCHEDULERS.len())) {
        let name = format!("{load} times the load");
        busy = busy.line(line(&name, &xs, found.iter().map(|found| found.batch.busy)));
        conflicts =
            conflicts.line(line(&name, &xs, found.iter().map(|found| found.batch.conflicts)));
    }
    [(format!("fig9-busyness{ending}"), busy), (format!("fig9-conflicts{ending}"), conflicts)]
}

fn checks(cell: &str, all: &[Found]) -> Vec<Check> {
    let found: Vec<&[Found]> = all.chunks(SCHEDULERS.len()).collect();
    let (usual, last) = (found[0], SCHEDULERS.len() - 1);
    let halves = usual.windows(2).map(|pair| pair[0].batch.busy / pair[1].batch.busy);
    let least = halves.clone().fold(f64::INFINITY, f64::min);
    let most = halves.fold(0.0, f64::max);
    vec![
        check_on(
            cell,
            "Twice as many schedulers are about half as busy each",
            least > 1.7 && most < 2.3,
            format!("the ratios are {} to {}", figure(least), figure(most)),
        ),
        check_on(
            cell,
            "Conflicts grow with the number of schedulers",
            usual[last].batch.conflicts > usual[0].batch.conflicts,
            format!(
                "{} with one, {} with 32",
                figure(usual[0].batch.conflicts),
                figure(usual[last].batch.conflicts)
            ),
        ),
        check_on(
            cell,
            "What saturates one scheduler does not saturate 32",
            found[2][0].batch.busy > 0.98 && found[2][last].batch.busy < 0.5,
            format!(
                "{} and {} at four times the load",
                figure(found[2][0].batch.busy),
                figure(found[2][last].batch.busy)
            ),
        ),
    ]
}
