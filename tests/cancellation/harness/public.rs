//! Lists everything to cancel, from the source text: each public async function, stream and future.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names, such as `Client::get`; streams as `ConnectionStates::next`, futures as `Task::await`, and functions
/// outside an impl under the name of their module.
pub(crate) fn public_futures() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
    names
}

fn visit(dir: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("the sources are at hand") {
        let path = entry.expect("the sources are at hand").path();
        if path.is_dir() {
            visit(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source is text");
            names.extend(in_source(&text, &module(&path)));
        }
    }
}

/// The name of the module that a file is.
fn module(path: &Path) -> String {
    let of_dir = path.file_stem().is_some_and(|stem| stem == "mod");
    let path = if of_dir { path.parent().unwrap_or(path) } else { path };
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The lines, with each signature that takes several of them as one.
fn joined(text: &str) -> Vec<String> {
    let mut lines = Vec::<String>::new();
    let mut open = false;
    for line in text.lines() {
        match lines.last_mut() {
            Some(signature) if open => signature.push_str(line.trim()),
            _ => lines.push(line.to_owned()),
        }
        let begins = line.trim_start().starts_with("pub fn") && line.ends_with('(');
        open = begins || (open && !line.trim_start().starts_with(')'));
    }
    lines
}

/// Those of one file, formatted as rustfmt does.
fn in_source(text: &str, module: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut owner = module.to_owned();
    let mut of_macro = None;
    for line in joined(text) {
        let line = line.as_str();
        if let Some(name) = line.strip_prefix("macro_rules! ") {
            of_macro = Some((name.trim_end_matches(" {").to_owned(), Vec::new()));
        }
        if let Some((name, functions)) = &mut of_macro {
            functions.extend(asynchronous(line).map(|signature| name_of(signature).to_owned()));
            if line != "}" {
                continue;
            }
            // The first argument of each call is the type.
            let calls =
                text.lines().filter_map(|line| line.strip_prefix(&format!("{name}!("))?.split([',', ')']).next());
            names.extend(calls.flat_map(|of| functions.iter().map(move |function| format!("{of}::{function}"))));
            of_macro = None;
            continue;
        }
        if let Some((of, what)) = header(line) {
            let public = is_public(text, what);
            match of {
                "Stream" if public => names.push(format!("{what}::next")),
                "Future" if public => names.push(format!("{what}::await")),
                _ => {}
            }
            owner = what.to_owned();
        } else if line == "}" {
            owner = module.to_owned();
        } else if let Some(name) = asynchronous(line) {
            names.push(format!("{owner}::{}", name_of(name)));
        }
    }
    names
}

/// The name of the function whose signature begins like this.
fn name_of(signature: &str) -> &str {
    signature.split(['(', '<']).next().unwrap_or_default()
}

/// The text after `fn` in the first line of a public function that is asynchronous.
fn asynchronous(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let returns_one = |name: &&str| name.contains(") -> impl Future<");
    line.strip_prefix("pub async fn ").or_else(|| line.strip_prefix("pub fn ").filter(returns_one))
}

fn is_public(text: &str, name: &str) -> bool {
    let after = text.lines().filter_map(|line| line.strip_prefix("pub struct ")?.strip_prefix(name));
    after.into_iter().any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Of the first line of an impl: the trait, if any, and the type.
fn header(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("impl")?;
    let rest = rest.strip_prefix(' ').or_else(|| skip_parameters(rest))?;
    match rest.split_once(" for ") {
        Some((of, what)) => Some((last_name(of), last_name(what))),
        None => Some(("", last_name(rest))),
    }
}

/// The text after `<…> `.
fn skip_parameters(rest: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, c) in rest.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return rest[at + 1..].strip_prefix(' ');
        }
        before = c;
    }
    None
}

/// `Stream` of `futures::Stream<T> {`.
fn last_name(path: &str) -> &str {
    let end = path.find(['<', ' ', '{']).unwrap_or(path.len());
    path[..end].rsplit("::").next().unwrap_or_default()
}

#[test]
fn the_scan_finds_what_is_public_and_async() {
    let source = r#"
pub struct Walk<T> { t: T }
pub struct HiddenNot;
struct Hidden;
impl<T: Fn() -> Vec<T>> Walk<T> {
    pub async fn step<U>(&self, u: U) {}
    pub(crate) async fn inner(&self) {}
    async fn own(&self) {}
    pub fn plain(&self) {}
}
pub async fn free() {}
impl<T> futures::Stream for Walk<T> {
}
impl std::future::Future for Hidden {
}
macro_rules! legs {
    ($of:ident) => {
        impl $of {
            pub async fn walk(&self) {}
        }
    };
}
legs!(Dog);
legs!(Cat, 4);
"#;
    let found = in_source(source, "walking");
    assert_eq!(found, ["Walk::step", "walking::free", "Walk::next", "Dog::walk", "Cat::walk"]);
    let found = public_futures();
    for known in [
        "Client::get",
        "ClientBuilder::connect",
        "LeaderLatch::close",
        "TestingServer::until",
        "ConnectionStates::next",
        "Task::await",
    ] {
        assert!(found.contains(known), "{known} is not among {found:?}");
    }
}
