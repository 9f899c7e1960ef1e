//! A Python that has kazoo, in a virtual environment below `target`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The version that the tests were written for.
const KAZOO: &str = "kazoo==2.11.0";

/// Returns it; it is made once, and installed from PyPI.
pub(crate) fn python() -> &'static PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kazoo");
        let python = home.join("bin/python3");
        run(Command::new("python3").args(["-m", "venv"]).arg(&home).stdout(Stdio::null()));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", KAZOO]));
        python
    })
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}; python3 is needed, with venv"));
    assert!(status.success(), "{command:?}: {status}");
}
