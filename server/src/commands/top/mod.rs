//! `omega top`: the activity of a cell, updated once a second.
//!
//! ```text
//!   sample.rs: counters of all replicas ──▶ shape.rs: rates of two samples ──▶ screen.rs: text ──▶ terminal.rs
//!   list.rs: lists and details ──▶ browse.rs: sorted, filtered, selected ──────────────▲
//! ```
//!
//! Each replica counts its own traffic, so the counters of all replicas are summed.

mod browse;
mod list;
mod reasons;
mod sample;
mod screen;
mod shape;
mod terminal;

use crate::commands::call::Caller;
use crate::commands::show::{self, Format};
use crate::commands::{CommandArgs, CommandError};
use browse::{Browse, KeyEffect};
use clap::Args;
use list::{List, Page};
use reasons::Reasons;
use sample::{Sample, Watched};
use shape::TopShape;
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use terminal::{Event, Terminal};

/// Refresh interval. Rates are means over this time.
const EVERY: Duration = Duration::from_secs(1);

/// Refresh interval of lists and details, which are larger than the figures of the overview.
const LIST_EVERY: Duration = Duration::from_secs(3);

/// The cell, and whether to repeat.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: j, m, o: jobs, machines, overview; q or Ctrl-C: quit; space: pause and resume.\nIn a \
                  list: arrows and Enter: details of a row; s, r: sort by the next column, reverse; /: filter; \
                  Esc: back.\n\nExamples:\n  omega \
         top\n  \
                  omega top --once\n  omega top --once -o json | jq .waiting"
)]
pub(crate) struct TopArgs {
    /// Measure for one second, print the values once, and exit. This is the default with -o json, name or yaml, or if
    /// standard input or standard output is not a terminal.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    common: CommandArgs,
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<(), CommandError> {
    let is_live = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let is_table = matches!(args.common.output, Format::Table | Format::Wide);
    if args.once || !is_live || !is_table { once(args) } else { live(args) }
}

fn once(args: &TopArgs) -> Result<(), CommandError> {
    let watched = Watched::new(&args.common)?;
    let before = watched.sample()?;
    std::thread::sleep(EVERY);
    let after = watched.sample()?;
    let mut shape = TopShape::between(&before, &after);
    for job in &mut shape.waiting {
        job.why = reasons::why(&args.common, &job.job);
    }
    show::print(args.common.output, &shape, || screen::text(&after.kinds, &shape))
}

/// The data of the shown page, and how it is requested.
struct Live {
    watched: Watched,
    caller: Caller,
    reasons: Reasons,
    before: Sample,
    browse: Browse,
    list: List,
    /// The overview, or the details of an object.
    text: String,
    /// Time of the last request for a list or for details.
    requested: Instant,
}

fn live(args: &TopArgs) -> Result<(), CommandError> {
    let watched = Watched::new(&args.common)?;
    let mut live = Live {
        caller: args.common.caller()?,
        reasons: Reasons::start(args.common.clone()),
        before: watched.sample()?,
        watched,
        browse: Browse::default(),
        list: List::default(),
        text: "measuring for a second ...\n".to_owned(),
        requested: Instant::now(),
    };
    let terminal = Terminal::take().map_err(CommandError::System)?;
    let mut is_halted = false;
    let mut trouble: Option<String> = None;
    loop {
        let height = terminal.height().map_err(CommandError::System)?;
        let page = match &trouble {
            Some(why) => screen::with_trouble(&live.page(height - 1), why),
            None => live.page(height),
        };
        terminal.draw(&page, &live.browse.help(is_halted)).map_err(CommandError::System)?;
        let done = match terminal.wait(EVERY) {
            Event::End => return Ok(()),
            Event::Key(key) => match live.browse.key(key, &live.list, live.text.lines().count()) {
                KeyEffect::Quit => return Ok(()),
                KeyEffect::Pause => {
                    is_halted = !is_halted;
                    continue;
                }
                KeyEffect::Draw => continue,
                KeyEffect::Request => live.open(),
            },
            Event::Time if is_halted => continue,
            Event::Time if !live.is_due() => continue,
            Event::Time => live.request(),
        };
        // The last page stays, because old figures are better than none.
        trouble = done.err().map(|error| error.to_string());
    }
}

impl Live {
    /// Whether the data of the page is old. Lists are requested less often than the figures of the overview.
    fn is_due(&self) -> bool {
        self.browse.page() == Page::Overview || self.requested.elapsed() >= LIST_EVERY
    }

    /// Requests the data of another page. Until it arrives, the page is empty.
    fn open(&mut self) -> Result<(), CommandError> {
        (self.list, self.text) = (List::default(), String::new());
        self.request()
    }

    /// Requests the data of the page.
    fn request(&mut self) -> Result<(), CommandError> {
        self.requested = Instant::now();
        let page = self.browse.page();
        if page == Page::Overview {
            let after = self.watched.sample()?;
            let mut shape = TopShape::between(&self.before, &after);
            self.reasons.fill(&mut shape.waiting);
            self.text = screen::text(&after.kinds, &shape);
            self.before = after;
        } else if let Some(name) = self.browse.detail() {
            self.text = list::detail(&self.caller, &self.before.kinds, page, name)?;
        } else {
            self.list = List::request(&self.caller, &self.before.kinds, page)?;
        }
        Ok(())
    }

    /// The page as text for this number of lines.
    fn page(&self, height: usize) -> String {
        match (self.browse.page(), self.browse.detail()) {
            (Page::Overview, _) => self.text.clone(),
            (_, Some(_)) => self.browse.detail_text(&self.text),
            (_, None) => self.browse.list_text(&self.list, height),
        }
    }
}
