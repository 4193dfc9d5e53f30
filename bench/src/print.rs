//! Standard output of the commands.
//!
//! A reader may close it early, as `head` does. Further lines are then dropped without a message.

use omega_workload::command_line::{self, BAD_INPUT};
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::exit;

/// Prints a line. Returns whether it was written: it is dropped if the reader has closed the output. Any other failure
/// ends the program.
pub(crate) fn line(text: impl Display) -> bool {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => true,
        Err(why) if why.kind() == ErrorKind::BrokenPipe => false,
        Err(why) => {
            let message = format!("cannot write to standard output: {why}");
            command_line::fail("omega-bench", &message, BAD_INPUT);
            exit(BAD_INPUT.into())
        }
    }
}

/// Prints a line, which is formatted as by `println!`.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::print::line(format_args!($($text)*))
    };
}

pub(crate) use say;
