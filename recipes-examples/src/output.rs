//! What the examples print: lines with a time stamp.

use std::future::ready;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use tokio::time::Instant;
use zookeeper_recipes::{Client, ConnectionState};

use crate::ending;

/// Like `println!` of `std`, but each line starts with the time since the start of the program. If the reader of the
/// output has closed it (`| head -1`), the example ends as if asked to.
#[macro_export]
macro_rules! println {
    ($($line:tt)*) => { $crate::print_line(::std::format_args!($($line)*)) };
}

static STARTED: OnceLock<Instant> = OnceLock::new();

/// Sets the moment from which all time stamps count.
pub(crate) fn start_clock() {
    STARTED.get_or_init(Instant::now);
}

/// Prints `text`, with the same time stamp before each of its lines; an empty line stays empty. See [`println!`].
///
/// # Panics
/// If the standard output cannot be written for a reason other than a closed reader, such as a full disk.
pub fn print_line(text: std::fmt::Arguments<'_>) {
    let text = text.to_string();
    let mut output = std::io::stdout().lock();
    // Read under the lock, so that the time stamps of the output never decrease.
    let elapsed = STARTED.get_or_init(Instant::now).elapsed().as_secs_f64();
    match output.write_all(stamped(&text, elapsed).as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ending::OUTPUT_CLOSED.notify_one(),
        outcome => outcome.expect("the standard output can be written"),
    }
}

fn stamped(text: &str, elapsed: f64) -> String {
    let stamp = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("{elapsed:7.3} s  {line}\n") };
    text.split('\n').map(stamp).collect()
}

/// Returns a number with its noun, as in `1 write` and `2 writes`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Prints each change of the connection of `client` from now on, with `id` in front.
pub fn tell_connection(client: &Client, id: &str) {
    let id = id.to_owned();
    client.add_listener(move |state| {
        match state {
            ConnectionState::Connected => println!("{id}: connected"),
            ConnectionState::Suspended => println!("{id}: the connection is suspended"),
            ConnectionState::Reconnected => println!("{id}: reconnected"),
            ConnectionState::Lost => println!("{id}: the session is lost; the client opens a new one"),
            other => println!("{id}: {other}"),
        }
        ready(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_a_time_stamp() {
        assert_eq!(stamped("one\n\n  two", 12.3456), " 12.346 s  one\n\n 12.346 s    two\n");
        assert_eq!(stamped("", 1.0), "\n");
        assert_eq!(stamped("late", 1234.5), "1234.500 s  late\n");
    }

    #[test]
    fn a_number_agrees_with_its_noun() {
        let writes = |number| count(number, "write", "writes");
        assert_eq!([writes(0), writes(1), writes(2)], ["0 writes", "1 write", "2 writes"]);
    }
}
