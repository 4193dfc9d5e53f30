//! Report of a rebalancing pass: the output of `omega rebalance`, as one value, as text and as JSON.
//!
//! `docs/rebalance.md` describes the fields for readers of the file.

use super::number::{count, plural, wide};
use super::text::{Align, WIDTH, clean, clip, columns, wrap};
use serde::Serialize;

/// Report on a rebalancing pass over a cell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RebalanceReport {
    /// Description of the cell, in a few words.
    pub name: String,
    /// Number of machines that accept tasks.
    pub machines: usize,
    /// Number of running tasks.
    pub tasks: usize,
    /// Number of tasks on machines that would not accept them now.
    pub misplaced: usize,
    /// The objective, term by term.
    pub terms: Vec<TermLine>,
    /// The weighted sum of the terms before the moves, in millionths of a machine.
    pub before: i128,
    /// The weighted sum after all moves, in millionths of a machine.
    pub after: i128,
    /// Facts about the cell that are not part of the objective.
    pub facts: Vec<FactLine>,
    /// Number of moves for each reason.
    pub reasons: Vec<ReasonLine>,
    /// The moves in order.
    pub moves: Vec<MoveLine>,
    /// Misplaced tasks that are not moved.
    pub stuck: Vec<StuckLine>,
    /// Number of other tasks whose move would improve the objective, but which are not moved, by reason.
    pub hindered: Vec<(String, usize)>,
    /// Number of examined pairs of a task and a machine.
    pub considered: u64,
    /// Duration of the search in seconds.
    pub seconds: f64,
    /// Reason why the search ended.
    pub ended: String,
    /// Result of the moves; `None` if the plan was not applied.
    pub applied: Option<Applied>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// One term of the objective.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TermLine {
    /// Name of the term.
    pub term: String,
    /// Weight of the term.
    pub weight: u32,
    /// Cost before the moves, in millionths of a machine.
    pub before: i128,
    /// Cost after all moves, in millionths of a machine.
    pub after: i128,
    /// Description, in words.
    pub what: String,
}

/// A fact of the cell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FactLine {
    /// Name of the fact.
    pub fact: String,
    /// Value before the moves.
    pub before: u64,
    /// Value after all moves.
    pub after: u64,
}

/// Moves for one reason.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReasonLine {
    /// Reason of the moves: the name of the term that improves most, or the fact that the next step needs the room.
    pub reason: String,
    /// Number of moves.
    pub moves: usize,
    /// Weighted gain of these moves' steps, in millionths of a machine.
    pub gain: i128,
}

/// One move.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MoveLine {
    /// Number of the move's wave, from 1.
    pub wave: usize,
    /// Number of the move's step, from 1. The moves of one step are committed in one transaction.
    pub step: usize,
    /// Name of the task's job.
    pub job: String,
    /// The task's number in the job.
    pub task: u32,
    /// Machine from which the task is moved.
    pub from: String,
    /// Machine to which the task is moved.
    pub to: String,
    /// Reason of the move.
    pub why: String,
    /// Weighted gain of the step, in millionths of a machine.
    pub gain: i128,
}

/// A misplaced task that is not moved.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StuckLine {
    /// Name of the task's job.
    pub job: String,
    /// The task's number in the job.
    pub task: u32,
    /// Machine of the task.
    pub machine: String,
    /// Reason why the task is not moved.
    pub why: String,
    /// Reasons that exclude machines, each with its number of machines.
    pub reasons: Vec<(String, usize)>,
}

/// The cell in which the moves of a plan are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AppliedOn {
    /// The served cell.
    Cell,
    /// A copy in this process, to check the plan.
    Copy,
}

/// Result of applying the steps of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// The changed cell.
    pub on: AppliedOn,
    /// Number of steps that the cell committed.
    pub committed: usize,
    /// Number of steps whose task was no longer on the planned machine.
    pub stale: usize,
    /// Number of steps that were rejected, by reason.
    pub refused: Vec<(String, usize)>,
    /// Number of plans after the first one, made for steps that conflicted. `stale` and `refused` refer to the last
    /// plan.
    pub replans: usize,
    /// Number of steps that were not sent, because the cell did not answer.
    pub untried: usize,
    /// The last error, if the cell no longer answered.
    pub failed: Option<String>,
}

/// Number of items of a list that are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Only the first items of a long list.
    Short,
    /// All moves, and all misplaced tasks.
    All,
}

/// Maximum number of printed moves, and of printed tasks that are not moved, unless all are requested. Each list then
/// fits on a screen.
const LINES: usize = 20;

/// Converts the report to indented JSON with a final line break.
///
/// # Panics
/// Never, because every key is text, and the text is only written to memory.
#[must_use]
pub fn json(report: &RebalanceReport) -> String {
    let mut text = serde_json::to_string_pretty(report)
        .expect("a report holds only what JSON has, and memory takes all that is written");
    text.push('\n');
    text
}

/// Formats the report for a terminal.
#[must_use]
pub fn render(report: &RebalanceReport, detail: Detail) -> String {
    let mut text = format!("{}\n", clean(&report.name));
    text.push_str(&format!(
        "{} on {}; {} misplaced\n",
        plural(wide(report.tasks), "task"),
        plural(wide(report.machines), "machine"),
        count(wide(report.misplaced)),
    ));
    text.push_str(&objective(report));
    text.push_str(&facts(report));
    text.push_str(&moves(report, detail));
    text.push_str(&stays(report, detail));
    text.push_str(&end(report));
    text
}

/// Formats a cost, given in millionths of a machine, as a number of machines.
fn machines(cost: i128) -> String {
    let value = cost as f64 / 1e6;
    match value.abs() {
        v if v >= 1000.0 => {
            let whole = count(v.round() as u64);
            if value < 0.0 { format!("-{whole}") } else { whole }
        }
        v if v >= 10.0 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

fn objective(report: &RebalanceReport) -> String {
    let head = ["  term", "weight", "before", "after", "change", ""].map(str::to_owned).to_vec();
    let row = |line: &TermLine| {
        let change = line.after - line.before;
        vec![
            format!("  {}", clean(&line.term)),
            count(u64::from(line.weight)),
            machines(line.before),
            machines(line.after),
            signed(change),
            clean(&line.what),
        ]
    };
    let total = vec![
        "  weighted sum".to_owned(),
        String::new(),
        machines(report.before),
        machines(report.after),
        signed(report.after - report.before),
        percent_less(report.before, report.after),
    ];
    // If there are many kinds, most are far below their safety level, so their terms are zero. Such terms are left out.
    let idle =
        |line: &&TermLine| line.term.starts_with("load ") && (line.before, line.after) == (0, 0);
    let terms = report.terms.iter().filter(|line| !idle(line)).map(row);
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(terms).chain([total]).collect();
    let right = Align::Right;
    let aligns = [Align::Left, right, right, right, right, Align::Left];
    format!("\nobjective, in mean machines\n\n{}", columns(&rows, &aligns, 5))
}

fn signed(change: i128) -> String {
    match change {
        0 => "=".to_owned(),
        c if c > 0 => format!("+{}", machines(c)),
        c => machines(c),
    }
}

fn percent_less(before: i128, after: i128) -> String {
    if before == 0 {
        return String::new();
    }
    let less = (before - after) as f64 / before as f64 * 100.0;
    format!("{less:.1} % less")
}

fn facts(report: &RebalanceReport) -> String {
    let head = ["  fact", "before", "after"].map(str::to_owned).to_vec();
    let row = |line: &FactLine| {
        vec![format!("  {}", clean(&line.fact)), count(line.before), count(line.after)]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(report.facts.iter().map(row)).collect();
    format!("\n{}", columns(&rows, &[Align::Left, Align::Right, Align::Right], 0))
}

fn moves(report: &RebalanceReport, detail: Detail) -> String {
    let Some(last) = report.moves.last() else {
        return "\nno move improves the \
         objective\n"
            .to_owned();
    };
    let mut text = format!(
        "\n{} in {}",
        plural(wide(report.moves.len()), "move"),
        plural(wide(last.wave), "wave"),
    );
    let reasons: Vec<String> = report.reasons.iter().map(reason).collect();
    text.push_str(&format!(": {}\n\n", reasons.join("; ")));
    let heads = ["  wave", "step", "job", "task", "from", "to", "gain", "why"];
    let head = heads.map(str::to_owned).to_vec();
    let shown = shown(report.moves.len(), detail);
    let row = |line: &MoveLine| {
        vec![
            format!("  {}", line.wave),
            line.step.to_string(),
            clip(&clean(&line.job), WIDTH / 4),
            line.task.to_string(),
            clip(&clean(&line.from), WIDTH / 5),
            clip(&clean(&line.to), WIDTH / 5),
            machines(line.gain),
            clean(&line.why),
        ]
    };
    let rows = std::iter::once(head).chain(report.moves[..shown].iter().map(row));
    let rows: Vec<Vec<String>> = rows.collect();
    let (left, right) = (Align::Left, Align::Right);
    text.push_str(&columns(&rows, &[left, right, left, right, left, left, right, left], 2));
    text.push_str(&rest(report.moves.len() - shown));
    text
}

fn reason(line: &ReasonLine) -> String {
    format!(
        "{} for {} (gain {})",
        count(wide(line.moves)),
        clean(&line.reason),
        machines(line.gain)
    )
}

fn shown(all: usize, detail: Detail) -> usize {
    if detail == Detail::All { all } else { all.min(LINES) }
}

fn rest(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!("  and {} more: --all-moves prints them\n", count(wide(more))),
    }
}

fn stays(report: &RebalanceReport, detail: Detail) -> String {
    let mut text = String::new();
    if !report.stuck.is_empty() {
        let tasks = plural(wide(report.stuck.len()), "misplaced task");
        let verb = if report.stuck.len() == 1 { "stays" } else { "stay" };
        text.push_str(&format!("\n{tasks} {verb}\n\n"));
        let shown = shown(report.stuck.len(), detail);
        for line in &report.stuck[..shown] {
            let reasons = line.reasons.iter();
            let reasons =
                reasons.map(|(reason, n)| format!("{} {}", count(wide(*n)), clean(reason)));
            let reasons: Vec<String> = reasons.collect();
            let sentence = format!(
                "{}/{} on {}: {}{}{}",
                clip(&clean(&line.job), WIDTH / 3),
                line.task,
                clip(&clean(&line.machine), WIDTH / 4),
                clean(&line.why),
                if reasons.is_empty() { "" } else { "; machines: " },
                reasons.join(", "),
            );
            for (index, line) in wrap(&sentence, WIDTH - 4).into_iter().enumerate() {
                let bullet = if index == 0 { "-" } else { " " };
                text.push_str(&format!("  {bullet} {line}\n"));
            }
        }
        text.push_str(&rest(report.stuck.len() - shown));
    }
    if !report.hindered.is_empty() {
        let counts = report.hindered.iter();
        let counts = counts.map(|(why, number)| format!("{} {}", count(wide(*number)), clean(why)));
        let counts: Vec<String> = counts.collect();
        let sentence =
            format!("other tasks that stay on machines with a high cost: {}", counts.join("; "));
        text.push_str(&format!("\n{}\n", wrap(&sentence, WIDTH).join("\n")));
    }
    text
}

fn end(report: &RebalanceReport) -> String {
    let mut text = format!(
        "\nlooked at {} in {:.2} s; {}\n",
        plural(report.considered, "move"),
        report.seconds,
        clean(&report.ended),
    );
    if let Some(done) = &report.applied {
        let refused: usize = done.refused.iter().map(|(_, number)| number).sum();
        let steps = plural(wide(done.committed), "transaction");
        let to = match done.on {
            AppliedOn::Cell => "",
            AppliedOn::Copy => " to a copy of the cell",
        };
        text.push_str(&format!(
            "applied{to}: {steps} committed, {} out of date, {} refused",
            done.stale, refused
        ));
        for (reason, number) in &done.refused {
            text.push_str(&format!("; {number} {}", clean(reason)));
        }
        if done.replans > 0 {
            text.push_str(&format!("; planned again {}", plural(wide(done.replans), "time")));
        }
        text.push('\n');
        if let Some(error) = &done.failed {
            let left = plural(wide(done.untried), "step");
            text.push_str(&format!("{left} not tried: {}\n", clean(error)));
        }
    }
    for note in &report.notes {
        text.push_str(&format!("{}\n", wrap(&clean(note), WIDTH).join("\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> RebalanceReport {
        let terms = [("misplaced", 1000, 2_000_000, 0), ("moves", 1, 0, 50_000)];
        let terms = terms.map(|(term, weight, before, after)| TermLine {
            term: term.into(),
            weight,
            before,
            after,
            what: "what it is".into(),
        });
        let a_move = MoveLine {
            wave: 1,
            step: 1,
            job: "web\u{1b}[31m".into(),
            task: 3,
            from: "m0".into(),
            to: "m1".into(),
            why: "misplaced".into(),
            gain: 1_999_950_000,
        };
        RebalanceReport {
            name: "a cell".into(),
            machines: 1200,
            tasks: 2,
            misplaced: 2,
            terms: terms.into(),
            before: 2_000_000_000,
            after: 50_000,
            facts: vec![FactLine { fact: "machines in use".into(), before: 2, after: 1 }],
            reasons: vec![ReasonLine { reason: "misplaced".into(), moves: 1, gain: 1_999_950_000 }],
            moves: vec![a_move; 22],
            stuck: vec![StuckLine {
                job: "db".into(),
                task: 0,
                machine: "m0".into(),
                why: "no machine can accept it".into(),
                reasons: vec![("too little cpu left".into(), 1199)],
            }],
            hindered: vec![("not worth a move".into(), 7)],
            considered: 64,
            seconds: 0.25,
            ended: "nothing is better".into(),
            applied: Some(Applied {
                on: AppliedOn::Cell,
                committed: 21,
                stale: 0,
                refused: vec![("too little cpu left".into(), 1)],
                replans: 2,
                untried: 4,
                failed: Some("the cell cannot be reached".into()),
            }),
            notes: vec!["a note".into()],
        }
    }

    #[test]
    fn the_text_tells_all_and_nothing_to_the_terminal() {
        let text = render(&example(), Detail::Short);
        let lines = [
            "2 tasks on 1,200 machines; 2 misplaced\n",
            "  term          weight  before  after  change\n",
            "  misplaced      1,000   2.000      0  -2.000  what it is\n",
            "  weighted sum           2,000  0.050  -2,000  100.0 % less\n",
            "  machines in use       2      1\n",
            "22 moves in 1 wave: 1 for misplaced (gain 2,000)\n",
            "  1        1  web\u{fffd}[31m     3  m0    m1  2,000  misplaced\n",
            "  and 2 more: --all-moves prints them\n",
            "1 misplaced task stays\n",
            "  - db/0 on m0: no machine can accept it; machines: 1,199 too little cpu left\n",
            "other tasks that stay on machines with a high cost: 7 not worth a move\n",
            "looked at 64 moves in 0.25 s; nothing is better\n",
            "applied: 21 transactions committed, 0 out of date, 1 refused; 1 too little cpu left; planned again 2 times\n",
            "4 steps not tried: the cell cannot be reached\n",
            "a note\n",
        ];
        for line in lines {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
        let mut checked = example();
        if let Some(applied) = &mut checked.applied {
            applied.on = AppliedOn::Copy;
        }
        let text = render(&checked, Detail::Short);
        assert!(text.contains("applied to a copy of the cell: 21 transactions"), "{text}");
        assert_eq!(render(&example(), Detail::All).matches("  m0    m1  ").count(), 22);
        let nothing = RebalanceReport::default();
        assert!(render(&nothing, Detail::Short).contains("no move improves the objective"));
    }

    #[test]
    fn every_field_of_the_file_is_in_the_docs() {
        let docs = include_str!("../../../../docs/rebalance.md");
        let text = json(&example());
        let names = text.split('"').skip(1).step_by(2).zip(text.split('"').skip(2).step_by(2));
        let fields = names.filter(|(_, after)| after.starts_with(':')).map(|(name, _)| name);
        for name in fields {
            assert!(docs.contains(&format!("`{name}`")), "docs/rebalance.md has no `{name}`");
        }
    }
}
