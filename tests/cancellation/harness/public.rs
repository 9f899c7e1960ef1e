//! Lists everything that can be cancelled, from the source text: each public async function, stream and future.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the names, such as `Client::get`; streams as `ConnectionStates::next`, futures as `Task::await`, and
/// functions outside an impl under the name of their module.
pub(crate) fn public_futures() -> BTreeSet<String> {
    let mut sources = Vec::new();
    visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
    let all: String = sources.iter().map(|(_, text)| text.as_str()).collect();
    sources.iter().flat_map(|(module, text)| in_source(text, module, &all)).collect()
}

/// Reads all files below a directory, each with the name of its module.
fn visit(dir: &Path, sources: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).expect("the sources are at hand") {
        let path = entry.expect("the sources are at hand").path();
        if path.is_dir() {
            visit(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source is text");
            sources.push((module(&path), text));
        }
    }
}

/// Returns the name of a file's module.
fn module(path: &Path) -> String {
    let of_dir = path.file_stem().is_some_and(|stem| stem == "mod");
    let path = if of_dir { path.parent().unwrap_or(path) } else { path };
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the lines, with each signature of several lines joined into one.
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

/// Returns the names in one file, which rustfmt has formatted. Its macros may be called, and its types may have
/// aliases, in any of `all` files.
fn in_source(text: &str, module: &str, all: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut owners = vec![module.to_owned()];
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
                all.lines().filter_map(|line| line.strip_prefix(&format!("{name}!("))?.split([',', ')']).next());
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
            owners = names_of_type(line, what, all);
        } else if line == "}" {
            owners = vec![module.to_owned()];
        } else if let Some(name) = asynchronous(line) {
            names.extend(owners.iter().map(|owner| format!("{owner}::{}", name_of(name))));
        }
    }
    names
}

/// Returns the names under which users know the type of an impl: its aliases, such as `MutexGuard` of
/// `Guard<Exclusive>`, if it has several.
fn names_of_type(header: &str, name: &str, all: &str) -> Vec<String> {
    let aliases = all.lines().filter_map(|line| {
        let (alias, of) = line.strip_prefix("pub type ")?.split_once(" = ")?;
        let argument = of.strip_prefix(name)?.strip_prefix('<')?.strip_suffix(">;")?;
        Some((alias, argument))
    });
    let aliases: Vec<_> = aliases.collect();
    if aliases.len() < 2 {
        return vec![name.to_owned()];
    }
    let is_of = |argument: &str| header.contains(&format!("{name}<{argument}>"));
    // An impl with a parameter applies to all aliases.
    let is_of_one = aliases.iter().any(|(_, argument)| is_of(argument));
    let known = aliases.iter().filter(|(_, argument)| !is_of_one || is_of(argument));
    known.map(|(alias, _)| (*alias).to_owned()).collect()
}

/// Returns the name of the function whose signature begins like this.
fn name_of(signature: &str) -> &str {
    signature.split(['(', '<']).next().unwrap_or_default()
}

/// Returns the text after `fn` in the first line of a public asynchronous function.
fn asynchronous(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let returns_one = |name: &&str| name.contains(") -> impl Future<");
    line.strip_prefix("pub async fn ").or_else(|| line.strip_prefix("pub fn ").filter(returns_one))
}

fn is_public(text: &str, name: &str) -> bool {
    let after = text.lines().filter_map(|line| line.strip_prefix("pub struct ")?.strip_prefix(name));
    after.into_iter().any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Returns the trait, if any, and the type in the first line of an impl.
fn header(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("impl")?;
    let rest = rest.strip_prefix(' ').or_else(|| skip_parameters(rest))?;
    match rest.split_once(" for ") {
        Some((of, what)) => Some((last_name(of), last_name(what))),
        None => Some(("", last_name(rest))),
    }
}

/// Returns the text after `<…> `.
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

/// Returns the bare name, such as `Stream` of `futures::Stream<T> {`.
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
    let elsewhere = r#"
legs!(Hen);
pub type Trot = Gait<Fast>;
pub type Amble = Gait<Slow>;
"#;
    let found = in_source(source, "walking", &format!("{source}{elsewhere}"));
    assert_eq!(found, ["Walk::step", "walking::free", "Walk::next", "Dog::walk", "Cat::walk", "Hen::walk"]);
    let generic = r#"
impl<G: Speed> Gait<G> {
    pub async fn keep(&self) {}
}
impl Gait<Fast> {
    pub async fn slow_down(&self) {}
}
"#;
    assert_eq!(in_source(generic, "gait", elsewhere), ["Trot::keep", "Amble::keep", "Trot::slow_down"]);
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
