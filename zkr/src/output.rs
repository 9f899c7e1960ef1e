//! Prints results: text for people, or JSON for programs.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use clap_complete::Shell;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;

use crate::ending::Ending;
use crate::options::Options;

/// How results are printed.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// As JSON, one value per line.
    pub json: bool,
}

impl Output {
    /// Prints a result, as text or as JSON. Prints nothing if the text is empty.
    pub async fn print(self, text: impl std::fmt::Display, value: &impl serde::Serialize) -> Result<(), Ending> {
        let mut line = if self.json { serde_json::to_string(value).map_err(Ending::failed)? } else { text.to_string() };
        if !line.is_empty() {
            line.push('\n');
        }
        write(line.into_bytes()).await
    }
}

/// Writes to the standard output on a separate thread: while a reader pauses, the session needs its heartbeats, and
/// Ctrl-C must end the process.
pub async fn write(bytes: Vec<u8>) -> Result<(), Ending> {
    let written = tokio::task::spawn_blocking(move || {
        let mut out = io::stdout().lock();
        out.write_all(&bytes).and_then(|()| out.flush())
    });
    written.await.map_err(Ending::failed)?.map_err(of_output)
}

/// Waits until the reader of the standard output has closed it. A command that rarely prints would otherwise
/// notice late.
pub async fn closed() {
    let closed = tokio::task::spawn_blocking(|| {
        let out = io::stdout();
        // The end of the reader is reported even if no event is requested.
        let mut out = [PollFd::new(out.as_fd(), PollFlags::empty())];
        while poll(&mut out, PollTimeout::NONE) == Err(Errno::EINTR) {}
        out[0].any() == Some(true)
    });
    if !matches!(closed.await, Ok(true)) {
        std::future::pending::<()>().await;
    }
}

/// Whether notes and errors are JSON, too.
static JSON: AtomicBool = AtomicBool::new(false);
/// The environment variable that tells the other processes of a command to print JSON.
const JSON_FOR_OTHERS: &str = "__ZKR_JSON";

/// Prints notes and errors as JSON from now on.
pub fn speak_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Uses the output format of the process that has started this one.
pub fn speak_as_told() {
    if std::env::var_os(JSON_FOR_OTHERS).is_some() {
        speak_json();
    }
}

/// Passes the output format on to another process of this program.
pub fn tell_how_to_speak(command: &mut Command) {
    if JSON.load(Ordering::Relaxed) {
        command.env(JSON_FOR_OTHERS, "1");
    }
}

/// Hides the output format from a command of the user.
pub fn tell_nothing(command: &mut Command) -> &mut Command {
    command.env_remove(JSON_FOR_OTHERS)
}

/// Prints a note beside the results. If that fails, the results still count.
pub fn note(text: impl std::fmt::Display) {
    say(&text, || json!({ "note": text.to_string() }));
}

/// Prints why this process ends with this status.
pub fn error(why: &str, status: u8) {
    say(&why, || json!({ "error": why, "status": status }));
}

fn say(text: &dyn std::fmt::Display, value: impl FnOnce() -> serde_json::Value) {
    let line = if JSON.load(Ordering::Relaxed) { value().to_string() } else { format!("zkr: {text}") };
    let _ = writeln!(io::stderr(), "{line}");
}

/// Returns a text from outside, such as the name of a node, with its control characters escaped: it must not move the
/// cursor.
pub fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Returns a number with the word for what it counts.
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Returns the rows as lines with aligned columns: the first one at the left, numbers at the right.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Prints the completions for a shell.
pub fn completions(shell: Shell) -> Ending {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Options::all_commands(), "zkr", &mut script);
    match io::stdout().write_all(&script) {
        Ok(()) => Ending::Success,
        Err(error) => of_output(error),
    }
}

/// Writes the manual pages into a directory: `zkr.1`, and one for each command.
pub fn man(directory: &Path) -> Ending {
    let written =
        std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Options::all_commands(), directory));
    match written {
        Ok(()) => Ending::Success,
        Err(error) => Ending::failed(format_args!("{}: {error}", directory.display())),
    }
}

/// Returns the ending after the output could not be written.
pub fn of_output(error: io::Error) -> Ending {
    // The reader has closed the output, as `head` does.
    if error.kind() == io::ErrorKind::BrokenPipe { Ending::OutputClosed } else { Ending::failed(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_aligned_columns_and_no_spaces_at_the_ends_of_lines() {
        let rows = [["NAME", "SHARE", ""], ["a", "1000", ""], ["longer", "7", "x"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "NAME    SHARE\na        1000\nlonger      7  x");
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn a_name_does_not_move_the_cursor() {
        assert_eq!(shown("a\x1b[2Jé"), "a\\u{1b}[2Jé");
    }

    #[test]
    fn numbers_have_their_words() {
        assert_eq!(count(0, "item", "items"), "0 items");
        assert_eq!(count(1, "item", "items"), "1 item");
    }
}
