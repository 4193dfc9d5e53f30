//! Text format of the ROADEF/EURO challenge 2012: a model, and an assignment (one machine for each process).
//!
//! The contest's processes, services and resources are called tasks, jobs and kinds in this crate.

use crate::instance::{Balance, Instance, Job, Kind, Machine, MoveWeights, Task, Transience};

/// Error in a model or an assignment, shown to the user on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file ends too early. Restore the missing part.
    #[error(
        "line {line}: the file ends before {field}: it is incomplete, or not in the contest's \
         format"
    )]
    Ends {
        /// The last line.
        line: usize,
        /// Expected field.
        field: String,
    },
    /// A word is not a whole number in the allowed range. Correct it.
    #[error("line {line}: {field}: {word:?} must be a whole number from 0 to {most}")]
    Number {
        /// Line of the word.
        line: usize,
        /// Name of the field.
        field: String,
        /// The word.
        word: String,
        /// The greatest allowed value.
        most: i64,
    },
    /// A number refers to an entry of an empty list. Probably an assignment was given in place of the model: give the
    /// model first, then the assignment.
    #[error(
        "line {line}: {field}: refers to an empty list, probably because the files are in the \
         wrong order: give the model first, then the assignment"
    )]
    Empty {
        /// Line of the word.
        line: usize,
        /// Name of the field.
        field: String,
    },
    /// The file goes on after the last field. Remove the rest, or correct the counts before it.
    #[error(
        "line {line}: {word:?} follows the last field: remove it, or correct the counts before it"
    )]
    Longer {
        /// Line of the word.
        line: usize,
        /// The word.
        word: String,
    },
}

/// Greatest number in a model. The contest's numbers have 32 bits, so sums of products of two such numbers fit into
/// 64 bits.
const VALUE_MAX: i64 = u32::MAX as i64;

/// Greatest count of machines, jobs, tasks, kinds or objectives.
const COUNT_MAX: i64 = 1 << 20;

/// Words of a text, each with the number of its line.
struct Words<'a> {
    words: Box<dyn Iterator<Item = (usize, &'a str)> + 'a>,
    line: usize,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Words<'a> {
        let lines = (1..).zip(text.lines());
        let words =
            lines.flat_map(|(line, text)| text.split_ascii_whitespace().map(move |w| (line, w)));
        Words { words: Box::new(words), line: 1 }
    }

    fn number(&mut self, most: i64, field: impl Fn() -> String) -> Result<i64, ReadError> {
        let Some((line, word)) = self.words.next() else {
            return Err(ReadError::Ends { line: self.line, field: field() });
        };
        self.line = line;
        if most < 0 {
            return Err(ReadError::Empty { line, field: field() });
        }
        let number = word.parse().ok().filter(|number| (0..=most).contains(number));
        number.ok_or_else(|| ReadError::Number {
            line,
            field: field(),
            word: word.to_owned(),
            most,
        })
    }

    fn value(&mut self, field: impl Fn() -> String) -> Result<i64, ReadError> {
        self.number(VALUE_MAX, field)
    }

    fn values(&mut self, count: usize, field: impl Fn() -> String) -> Result<Vec<i64>, ReadError> {
        (0..count).map(|_| self.value(&field)).collect()
    }

    fn count(&mut self, field: &str) -> Result<usize, ReadError> {
        self.number(COUNT_MAX, || field.to_owned()).map(|count| count as usize)
    }

    /// Reads a position in a list of `count` entries.
    fn position(&mut self, count: usize, field: impl Fn() -> String) -> Result<u32, ReadError> {
        self.number(count as i64 - 1, field).map(|position| position as u32)
    }

    fn end(&mut self) -> Result<(), ReadError> {
        match self.words.next() {
            None => Ok(()),
            Some((line, word)) => Err(ReadError::Longer { line, word: word.to_owned() }),
        }
    }
}

/// Reads a model. The list `initial` of the instance stays empty, until an assignment is read.
///
/// # Errors
/// If the text is not in the contest's format.
pub fn read_model(text: &str) -> Result<Instance, ReadError> {
    let words = &mut Words::new(text);
    let kinds = read_kinds(words)?;
    let machines = read_machines(words, kinds.len())?;
    let jobs = read_jobs(words)?;
    let tasks = read_tasks(words, kinds.len(), jobs.len())?;
    let balances = read_balances(words, kinds.len())?;
    let mut weight = |name: &str| words.value(|| format!("the weight of {name} moves"));
    let (task, job, machine) = (weight("process")?, weight("service")?, weight("machine")?);
    words.end()?;
    let weights = MoveWeights { task, job, machine };
    Ok(Instance { kinds, machines, jobs, tasks, balances, weights, ..Instance::default() })
}

fn read_kinds(words: &mut Words<'_>) -> Result<Vec<Kind>, ReadError> {
    let count = words.count("the number of resources")?;
    let mut kinds = Vec::with_capacity(count);
    for kind in 0..count {
        let transient = words.number(1, || format!("resource {kind}: transient"))?;
        let use_while_moving = if transient == 1 { Transience::Both } else { Transience::New };
        let load_weight = words.value(|| format!("resource {kind}: weight of its load cost"))?;
        kinds.push(Kind { use_while_moving, load_weight });
    }
    Ok(kinds)
}

fn read_machines(words: &mut Words<'_>, kinds: usize) -> Result<Vec<Machine>, ReadError> {
    let count = words.count("the number of machines")?;
    let mut machines = Vec::with_capacity(count);
    for machine in 0..count {
        let mut domain =
            |name: &str| words.number(COUNT_MAX, || format!("machine {machine}: {name}"));
        let (neighbourhood, location) =
            (domain("neighbourhood")? as u32, domain("location")? as u32);
        let capacity = words.values(kinds, || format!("machine {machine}: capacity"))?;
        let safety = words.values(kinds, || format!("machine {machine}: safety capacity"))?;
        let move_costs = words.values(count, || format!("machine {machine}: move costs"))?;
        machines.push(Machine { neighbourhood, location, capacity, safety, move_costs });
    }
    Ok(machines)
}

fn read_jobs(words: &mut Words<'_>) -> Result<Vec<Job>, ReadError> {
    let count = words.count("the number of services")?;
    let mut jobs = Vec::with_capacity(count);
    for job in 0..count {
        let spread = words.number(COUNT_MAX, || format!("service {job}: spread minimum"))? as u32;
        let dependencies = words.count("the number of dependencies of a service")?;
        let dependency = |_| words.position(count, || format!("service {job}: dependency"));
        let depends_on = (0..dependencies).map(dependency).collect::<Result<_, _>>()?;
        jobs.push(Job { spread, depends_on, ..Job::default() });
    }
    Ok(jobs)
}

fn read_tasks(words: &mut Words<'_>, kinds: usize, jobs: usize) -> Result<Vec<Task>, ReadError> {
    let count = words.count("the number of processes")?;
    let mut tasks = Vec::with_capacity(count);
    for task in 0..count {
        let job = words.position(jobs, || format!("process {task}: service"))?;
        let request = words.values(kinds, || format!("process {task}: requirement"))?;
        let move_cost = words.value(|| format!("process {task}: cost of moving it"))?;
        tasks.push(Task { job, request, move_cost, allowed: None });
    }
    Ok(tasks)
}

fn read_balances(words: &mut Words<'_>, kinds: usize) -> Result<Vec<Balance>, ReadError> {
    let count = words.count("the number of balance objectives")?;
    let mut balances = Vec::with_capacity(count);
    for objective in 0..count {
        let mut kind =
            || words.position(kinds, || format!("balance objective {objective}: resource"));
        let (first, second) = (kind()?, kind()?);
        let target = words.value(|| format!("balance objective {objective}: target"))?;
        let weight = words.value(|| format!("balance objective {objective}: weight"))?;
        balances.push(Balance { first, second, target, per: 1, weight });
    }
    Ok(balances)
}

/// Reads an assignment of `tasks` tasks to `machines` machines.
///
/// # Errors
/// If the text is not a list of `tasks` machine numbers below `machines`.
pub fn read_assignment(text: &str, tasks: usize, machines: usize) -> Result<Vec<u32>, ReadError> {
    let mut words = Words::new(text);
    let machine = |task| words.position(machines, || format!("the machine of process {task}"));
    let assignment = (0..tasks).map(machine).collect::<Result<_, _>>()?;
    words.end()?;
    Ok(assignment)
}

/// Writes an assignment on one line: the machine of each process, in the order of the processes.
#[must_use]
pub fn write_assignment(assignment: &[u32]) -> String {
    let words: Vec<String> = assignment.iter().map(u32::to_string).collect();
    words.join(" ") + "\n"
}
