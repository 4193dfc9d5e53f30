//! `omega top`: the activity of a cell, updated once a second.
//!
//! ```text
//!   look.rs: counters of all replicas ──▶ shape.rs: rates of two samples ──▶ screen.rs: text ──▶ terminal.rs
//! ```
//!
//! Each replica counts its own traffic, so the counters of all replicas are summed.

mod look;
mod reasons;
mod screen;
mod shape;
mod terminal;

use crate::ask::show::{self, Format};
use crate::ask::{AskArgs, AskError};
use clap::Args;
use look::Watched;
use reasons::Reasons;
use shape::TopShape;
use std::io::IsTerminal;
use std::time::Duration;
use terminal::{Event, Terminal};

/// Refresh interval. Rates are means over this time.
const EVERY: Duration = Duration::from_secs(1);

/// The cell, and whether to repeat.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: q, Esc or Ctrl-C: quit; space: pause and resume.\n\nExamples:\n  omega \
         top\n  \
                  omega top --once\n  omega top --once -o json | jq .waiting"
)]
pub(crate) struct TopArgs {
    /// Measure for one second, print the values once, and exit. This is the default with -o json, name or yaml, or if
    /// standard input or standard output is not a terminal.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<(), AskError> {
    let is_live = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let is_table = matches!(args.ask.output, Format::Table | Format::Wide);
    if args.once || !is_live || !is_table { once(args) } else { live(args) }
}

fn once(args: &TopArgs) -> Result<(), AskError> {
    let watched = Watched::new(&args.ask)?;
    let before = watched.look()?;
    std::thread::sleep(EVERY);
    let after = watched.look()?;
    let mut shape = TopShape::between(&before, &after);
    for job in &mut shape.waiting {
        job.why = reasons::why(&args.ask, &job.job);
    }
    show::print(args.ask.output, &shape, || screen::text(&after.kinds, &shape))
}

fn live(args: &TopArgs) -> Result<(), AskError> {
    let watched = Watched::new(&args.ask)?;
    let mut before = watched.look()?;
    let reasons = Reasons::start(args.ask.clone());
    let terminal = Terminal::take().map_err(AskError::System)?;
    let mut is_halted = false;
    let mut page = "measuring for a second ...\n".to_owned();
    loop {
        terminal.draw(&page, is_halted).map_err(AskError::System)?;
        match terminal.wait(EVERY) {
            Event::End => return Ok(()),
            Event::Key(b'q' | 0x1b | 0x03) => return Ok(()),
            Event::Key(b' ') => is_halted = !is_halted,
            Event::Key(_) => {}
            Event::Time if is_halted => {}
            Event::Time => match watched.look() {
                Ok(after) => {
                    let mut shape = TopShape::between(&before, &after);
                    reasons.fill(&mut shape.waiting);
                    page = screen::text(&after.kinds, &shape);
                    before = after;
                }
                // The last page stays, because old figures are better than none.
                Err(error) => page = screen::with_trouble(&page, &error.to_string()),
            },
        }
    }
}
