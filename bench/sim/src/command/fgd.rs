//! `omega-sim fgd`: policies for tasks that share devices, compared with published figures.

use super::SimError;
use super::streams::{note, stdout};
use crate::fgd::fragments::Shapes;
use crate::fgd::input::{Input, lists, machines_file, tasks_file};
use crate::fgd::policy::Policy;
use crate::fgd::published::{Published, tolerance};
use crate::fgd::run::{LOADS_PERCENT, Point, Run, run as simulate};
use crate::sheet::{Cell, Output, Sheet};
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use std::io::Write;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `omega-sim fgd`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  omega-sim fgd --data data --policy fgd --policy best-fit")]
pub struct FgdArgs {
    /// Folder of the openb trace
    ///
    /// If the folder contains the published results (published_fgd_table.csv), results are compared with them.
    #[arg(long, value_name = "DIR", required_unless_present = "tasks")]
    data: Option<PathBuf>,
    /// List of tasks in the folder of --data, such as `default` or `cpu050`; `all` means every list
    #[arg(long, value_name = "NAME", default_value = "default", conflicts_with = "tasks")]
    list: String,
    /// File with a list of tasks, instead of a list in the folder of --data
    #[arg(long, value_name = "FILE", requires = "machines")]
    tasks: Option<PathBuf>,
    /// File with a list of machines, instead of the list in the folder of --data
    #[arg(long, value_name = "FILE")]
    machines: Option<PathBuf>,
    /// Placement policy. May be repeated [default: all]
    #[arg(long, value_enum)]
    policy: Vec<PolicyChoice>,
    /// Number of random orders of arrival
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "10")]
    seeds: NonZeroU32,
    /// Place each task on a random one of the K best machines, as concurrent schedulers do to avoid conflicts
    #[arg(long, value_name = "K", allow_negative_numbers = true, default_value = "1")]
    among: NonZeroUsize,
    /// End with exit code 1 if a result differs too much from the published one, or if none is published
    ///
    /// The compared result is the percentage of allocated devices at each load, averaged over all --seeds. It may
    /// differ by 0.5 percentage points for random and best-fit, and by 1 for other policies. Results of fgd-ahead are
    /// not compared.
    #[arg(long)]
    check: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

/// A policy, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyChoice {
    One(Policy),
    All,
}

const CHOICES: [PolicyChoice; Policy::ALL.len() + 1] = {
    let mut choices = [PolicyChoice::All; Policy::ALL.len() + 1];
    let mut i = 0;
    while i < Policy::ALL.len() {
        choices[i] = PolicyChoice::One(Policy::ALL[i]);
        i += 1;
    }
    choices
};

impl ValueEnum for PolicyChoice {
    fn value_variants<'a>() -> &'a [PolicyChoice] {
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            PolicyChoice::One(policy) => policy.to_possible_value(),
            PolicyChoice::All => Some(clap::builder::PossibleValue::new("all").help(
                "All policies, one after the \
                     other",
            )),
        }
    }
}

const COLUMNS: [&str; 10] = [
    "list",
    "policy",
    "load_percent",
    "used_percent",
    "deviation",
    "published",
    "difference",
    "outside",
    "fragment_percent",
    "fragment_of_unused_percent",
];

/// Simulates and prints.
///
/// # Errors
/// If an input is at fault.
pub(super) fn run(args: &FgdArgs) -> Result<ExitCode, SimError> {
    let published = match &args.data {
        Some(dir) => Published::read(dir)?,
        None => Published::default(),
    };
    let policies = args.policies();
    let mut sheet = Sheet::new(&COLUMNS);
    let (mut outside, mut lacking) = (0, Vec::new());
    for (list, input) in args.inputs()? {
        let shapes = Shapes::of(&input.tasks);
        for policy in policies.iter().copied() {
            let run = |seed| Run { policy, seed, among: args.among.get() };
            let seeds = (0..u64::from(args.seeds.get())).into_par_iter();
            let points: Vec<_> = seeds.map(|seed| simulate(&input, &shapes, run(seed))).collect();
            let theirs = published.used(&list, policy);
            if theirs.is_none() && policy.published_name().is_some() {
                lacking.push(format!("{list} under {}", policy_name(policy)));
            }
            outside += push(&mut sheet, (&list, policy), &points, theirs);
        }
    }
    write!(stdout(), "{}", sheet.print(args.output))?;
    if outside > 0 {
        note(format!("{outside} means are further from the published ones than they may be"));
    }
    let unchecked = args.check && (!lacking.is_empty() || published.is_empty());
    if unchecked {
        let lacking =
            if lacking.is_empty() { "these policies".to_owned() } else { lacking.join(", ") };
        note(format!("--check: the table of published means has no row for {lacking}"));
    }
    let fails = unchecked || args.check && outside > 0;
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl FgdArgs {
    /// The chosen policies, each once.
    fn policies(&self) -> Vec<Policy> {
        let all = self.policy.is_empty() || self.policy.contains(&PolicyChoice::All);
        let asked = |policy: &Policy| all || self.policy.contains(&PolicyChoice::One(*policy));
        Policy::ALL.into_iter().filter(asked).collect()
    }

    /// Inputs to simulate, by name.
    fn inputs(&self) -> Result<Vec<(String, Input)>, SimError> {
        if let (Some(tasks), Some(machines)) = (&self.tasks, &self.machines) {
            let name = tasks.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(vec![(name, Input::read(machines, tasks)?)]);
        }
        let dir = self.data.clone().unwrap_or_default();
        let machines = self.machines.clone().unwrap_or_else(|| machines_file(&dir));
        let names = match &*self.list {
            "all" => lists(&dir)?,
            name => vec![name.to_owned()],
        };
        let read = |name: String| {
            let input = Input::read(&machines, &tasks_file(&dir, &name))?;
            Ok((name, input))
        };
        names.into_iter().map(read).collect()
    }
}

fn policy_name(policy: Policy) -> String {
    policy.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Adds the rows of a policy. Returns the number of its means that are outside of the tolerance.
fn push(
    sheet: &mut Sheet,
    (list, policy): (&str, Policy),
    runs: &[[Point; LOADS_PERCENT.len()]],
    published: Option<&[f64; LOADS_PERCENT.len()]>,
) -> u32 {
    let mut outside = 0;
    for (i, load) in LOADS_PERCENT.iter().enumerate() {
        let mean = |of: &dyn Fn(&Point) -> f64| {
            runs.iter().map(|run| of(&run[i])).sum::<f64>() / runs.len() as f64
        };
        let used = mean(&|point| point.used);
        let variance = mean(&|point| (point.used - used).powi(2));
        let theirs = published.map(|used| used[i]);
        let is_outside = theirs.is_some_and(|theirs| (used - theirs).abs() > tolerance(policy));
        outside += u32::from(is_outside);
        let number =
            |number: Option<f64>| number.map_or(Cell::None, |number| Cell::Number(number, 2));
        sheet.push(vec![
            list.into(),
            Cell::Text(policy_name(policy)),
            Cell::Count(u64::from(*load)),
            number(Some(used)),
            number(Some(variance.sqrt())),
            number(theirs),
            number(theirs.map(|theirs| used - theirs)),
            if is_outside { "outside".into() } else { Cell::None },
            number(Some(mean(&|point| point.fragment))),
            number(Some(mean(&|point| 100.0 * point.fragment / (100.0 - point.used).max(1e-9)))),
        ]);
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows for two runs, compared with published means. One ends with 90, the other with 92 percent of the devices
    /// allocated.
    fn rows(published: Option<[f64; LOADS_PERCENT.len()]>) -> (u32, String) {
        let run = |used| [Point { used, fragment: 2.0 }; LOADS_PERCENT.len()];
        let mut sheet = Sheet::new(&COLUMNS);
        let named = ("x", Policy::BestFit);
        let outside = push(&mut sheet, named, &[run(90.0), run(92.0)], published.as_ref());
        (outside, sheet.print(Output::Csv))
    }

    #[test]
    fn a_mean_that_is_too_far_off_is_marked() {
        let (outside, text) = rows(Some([91.0, 91.4, 90.6, 91.6, 90.4, 91.0]));
        assert_eq!(outside, 2);
        let marked: Vec<bool> = text.lines().skip(1).map(|row| row.contains("outside")).collect();
        assert_eq!(marked, [false, false, false, true, true, false]);
        assert!(text.contains("x,best-fit,80,91.00,1.00,91.00,0.00,,2.00,22.50\n"), "{text}");
    }

    #[test]
    fn what_was_not_published_is_not_compared() {
        let (outside, text) = rows(None);
        assert_eq!(outside, 0);
        assert!(text.contains("x,best-fit,130,91.00,1.00,,,,2.00,22.50\n"), "{text}");
    }
}
