//! Commands that judge: each looks, when it starts, whether a process of an earlier one is alive.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::eventually;

/// How a command takes the wish that it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// Ends at SIGTERM.
    Polite,
    /// Ignores it, as its child does.
    Stubborn,
}

/// Writes its number, then looks at all others: of two that run at a time, the second that has written sees the first.
/// It has a child, which must not outlive it either.
const SCRIPT: &str = r#"
alive() {
    state=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1)
    case $state in '' | Z | X) return 1 ;; esac
}
echo $$ >>"$1/processes"
for other in $(cat "$1/processes"); do
    [ "$other" = $$ ] || ! alive "$other" || echo "$other was alive when $$ started" >>"$1/overlaps"
done
[ "$2" != Stubborn ] || trap '' TERM
sleep 600 &
echo $! >>"$1/processes"
echo "$ZKR_FENCING_TOKEN" >>"$1/started"
while :; do sleep 600 & wait; done
"#;

/// What the commands of one line have written.
pub struct Judge {
    directory: TempDir,
}

impl Judge {
    pub fn new() -> Judge {
        Judge { directory: TempDir::new().expect("a directory") }
    }

    /// The command that judges.
    pub fn command(&self, temper: Temper) -> Vec<String> {
        let directory = self.directory.path().to_str().expect("it is text").to_owned();
        ["sh", "-c", SCRIPT, "sh", &directory, &format!("{temper:?}")].map(str::to_owned).into()
    }

    /// The fencing tokens of the commands that have started so far.
    pub fn started(&self) -> Vec<i64> {
        self.lines("started").iter().map(|token| token.parse().expect("a token")).collect()
    }

    pub async fn has_started(&self, count: usize, within: Duration) {
        eventually(&format!("command {count} starts"), within, || async { self.started().len() >= count }).await;
    }

    /// No two commands ran at a time, and each had a greater token than those before.
    pub fn assert_one_at_a_time(&self) {
        assert_eq!(self.lines("overlaps"), [""; 0]);
        let tokens = self.started();
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    }

    /// No process of any command is left.
    pub async fn assert_none_is_left(&self, within: Duration) {
        eventually("all processes are gone", within, || async {
            self.lines("processes").iter().all(|process| !is_alive(process))
        })
        .await;
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let file: PathBuf = self.directory.path().join(file);
        // It is not there before the first line.
        fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

/// Returns whether a process runs. One that has ended may still be there, until its parent asks about it.
pub fn is_alive(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}
