//! Machine reassignment, compared with an independent checker of the ROADEF contest's rules: random instances move by
//! move, searches, and the instances of the contest.

use omega_reassign::{Budget, Problem, Settings, State, Watch, contest, search};
use omega_tests::roadef::{Model, random_model, read_assignment};
use omega_workload::public_data;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A watch that never ends a search.
struct Endless;

impl Watch for Endless {
    fn spent(&self) -> f64 {
        0.0
    }
}

/// Settings of a search with this many steps by two walks.
fn in_steps(seed: u64, steps: u64) -> Settings {
    Settings { seed, walks: 2, budget: Budget::Steps(steps) }
}

fn problem(model: &str, assignment: &[usize]) -> Problem {
    let mut instance = contest::read_model(model).unwrap();
    instance.initial = assignment.iter().map(|machine| *machine as u32).collect();
    Problem::new(instance).unwrap()
}

fn wide(assignment: &[u32]) -> Vec<usize> {
    assignment.iter().map(|machine| *machine as usize).collect()
}

/// A move of one process, or an exchange of two.
enum Change {
    Move(usize, usize),
    Exchange(usize, usize),
}

/// Compares the cost of a change in the state with that of the checker after the change. Returns whether the change was
/// made.
fn agrees(state: &mut State<'_>, model: &Model, initial: &[usize], change: &Change) -> bool {
    let before = state.cost();
    let mut after = wide(state.assignment());
    let said = match *change {
        Change::Move(task, to) => {
            after[task] = to;
            state.change_by_move(task, to)
        }
        Change::Exchange(a, b) => {
            after.swap(a, b);
            state.change_by_exchange(a, b)
        }
    };
    let checked = model.check(initial, &after);
    assert_eq!(said.is_some(), checked.is_ok(), "possible? {said:?} {checked:?}");
    let (Some(said), Ok(cost)) = (said, checked) else { return false };
    assert_eq!(i128::from(before + said), cost, "cost before it is made");
    for (task, machine) in after.iter().enumerate() {
        state.put(task, *machine);
    }
    assert_eq!(i128::from(state.cost()), cost, "cost once it is made");
    true
}

#[test]
fn every_change_costs_what_the_checker_counts() {
    let (mut made, mut refused) = (0, 0);
    for seed in 0..200 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let (text, initial) = random_model(&mut rng);
        let model = Model::read(&text);
        if model.processes() < 2 {
            continue;
        }
        let problem = problem(&text, &initial);
        let mut state = State::new(&problem).unwrap();
        assert_eq!(
            i128::from(state.cost()),
            model.check(&initial, &initial).unwrap(),
            "seed {seed}"
        );
        for _ in 0..60 {
            let task = rng.random_range(0..model.processes());
            let other = rng.random_range(0..model.processes());
            let at = state.assignment();
            let change = if rng.random_range(0..2) == 0 && at[task] != at[other] {
                Change::Exchange(task, other)
            } else {
                Change::Move(task, rng.random_range(0..model.machines()))
            };
            let is_made = agrees(&mut state, &model, &initial, &change);
            (made, refused) = (made + u32::from(is_made), refused + u32::from(!is_made));
        }
    }
    assert!(made > 1000 && refused > 1000, "both happen often: {made} made, {refused} refused");
}

#[test]
fn searches_of_random_instances_obey_the_rules() {
    let mut better = 0;
    for seed in 0..100 {
        let (text, initial) = random_model(&mut Pcg64::seed_from_u64(seed));
        let (model, problem) = (Model::read(&text), problem(&text, &initial));
        let found = search(&problem, in_steps(seed, 8192), &Endless).unwrap();
        let cost = model.check(&initial, &wide(&found.assignment));
        assert_eq!(cost, Ok(i128::from(found.costs.total())), "seed {seed}");
        let before = model.check(&initial, &initial).unwrap();
        assert!(i128::from(found.costs.total()) <= before, "seed {seed}");
        better += u32::from(i128::from(found.costs.total()) < before);
        let again = search(&problem, in_steps(seed, 8192), &Endless).unwrap();
        assert_eq!(found, again, "seed {seed}: the same seed and steps give the same result");
    }
    assert!(better > 20, "many instances improve: {better}");
}

/// Folder with the instances of the contest; `None` if it is missing.
fn folder() -> Option<PathBuf> {
    public_data("roadef2012")
}

fn unpacked(file: &Path) -> String {
    let mut text = String::new();
    let packed = std::fs::File::open(file).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    text
}

/// Published costs of the instances' initial assignments.
const INSTANCES: [(&str, i128); 10] = [
    ("a1_1", 49_528_750),
    ("a1_2", 1_061_649_570),
    ("a1_3", 583_662_270),
    ("a1_4", 632_499_600),
    ("a1_5", 782_189_690),
    ("a2_1", 391_189_190),
    ("a2_2", 1_876_768_120),
    ("a2_3", 2_272_487_840),
    ("a2_4", 3_223_516_130),
    ("a2_5", 787_355_300),
];

#[test]
fn contest_instances_cost_what_is_published_and_improve() {
    let Some(folder) = folder() else { return };
    for (name, start) in INSTANCES {
        let text = unpacked(&folder.join(format!("model_{name}.txt.gz")));
        let initial = read_assignment(&unpacked(&folder.join(format!("assignment_{name}.txt.gz"))));
        let (model, problem) = (Model::read(&text), problem(&text, &initial));
        assert_eq!(model.check(&initial, &initial), Ok(start), "{name} at the start");
        let found = search(&problem, in_steps(1, 400_000), &Endless).unwrap();
        let cost = model.check(&initial, &wide(&found.assignment));
        assert_eq!(cost, Ok(i128::from(found.costs.total())), "{name}");
        assert!(i128::from(found.costs.total()) < start, "{name}: {}", found.costs.total());
    }
}

/// Reads an assignment as a model, which fails: its numbers declare no services, but then refer to one.
#[test]
fn a_reference_to_an_empty_list_says_so() {
    let error = contest::read_model("0 0 0 1 1").unwrap_err();
    assert!(matches!(error, contest::ReadError::Empty { line: 1, .. }), "{error}");
}
