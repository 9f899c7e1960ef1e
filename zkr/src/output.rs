//! What is printed: text for people, or JSON for programs.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::ending::Ending;
use crate::options::Options;

/// How results are printed.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// As JSON, one value a line.
    pub json: bool,
}

impl Output {
    /// Prints a result: as the text, or as the value.
    pub fn print(self, text: impl std::fmt::Display, value: &impl serde::Serialize) -> Result<(), Ending> {
        let line = if self.json { serde_json::to_string(value).map_err(Ending::failed)? } else { text.to_string() };
        let mut out = io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(of_output)
    }
}

/// Prints the completions for a shell.
pub fn completions(shell: Shell) -> Ending {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Options::command(), "zkr", &mut script);
    match io::stdout().write_all(&script) {
        Ok(()) => Ending::Success,
        Err(error) => of_output(error),
    }
}

/// Writes the manual pages into a directory: `zkr.1`, and one for each command.
pub fn man(directory: &Path) -> Ending {
    let written =
        std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Options::command(), directory));
    match written {
        Ok(()) => Ending::Success,
        Err(error) => Ending::failed(format_args!("{}: {error}", directory.display())),
    }
}

fn of_output(error: io::Error) -> Ending {
    // Its reader has seen enough, as `head` has.
    if error.kind() == io::ErrorKind::BrokenPipe { Ending::OutputClosed } else { Ending::failed(error) }
}
