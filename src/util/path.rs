//! The rules for znode paths, and operations on them.
//!
//! A path is checked when the user passes it in, so that a mistake is a clear error there and not a refused request
//! much later. The rules are those of ZooKeeper's own `PathUtils`, which the server applies as well.

use std::fmt;
use std::sync::Arc;

/// How many characters of an invalid value an error shows; the value may be very long.
const SHOWN_CHARS: usize = 100;

const BAD_CHARACTER: &str =
    "must not contain control characters, U+E000-U+F8FF, U+FFF0-U+FFFF or characters above U+FFFF";
const EMPTY_ELEMENT: &str = "must not contain an empty element (\"//\")";
const RELATIVE: &str = "must not contain \".\" or \"..\" as an element";

/// A path (or one name in it) that ZooKeeper would refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidPath {
    /// The value as it was given.
    pub(crate) path: String,
    /// The rule that it breaks.
    pub(crate) why: &'static str,
}

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid path {}: {}", quoted(&self.path), self.why)
    }
}

impl std::error::Error for InvalidPath {}

impl InvalidPath {
    fn new(path: &str, why: &'static str) -> Self {
        Self { path: path.to_owned(), why }
    }
}

/// Returns `value` in quotes with control characters escaped, cut to a readable length, for error texts.
pub(crate) fn quoted(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARS) {
        None => format!("{value:?}"),
        Some((end, _)) => format!("{:?}...", value.get(..end).unwrap_or(value)),
    }
}

/// Returns data as [`quoted`] text if it is UTF-8, otherwise as bytes with everything outside ASCII escaped.
pub(crate) fn quoted_bytes(data: &[u8]) -> String {
    match std::str::from_utf8(data) {
        Ok(text) => quoted(text),
        Err(_) => {
            let (shown, more) = (data.get(..SHOWN_CHARS).unwrap_or(data), data.len() > SHOWN_CHARS);
            format!("b\"{}\"{}", shown.escape_ascii(), if more { "..." } else { "" })
        }
    }
}

/// The longest path. A path that does not fit into a request would be retried again and again.
const MAX_PATH_BYTES: usize = 64 * 1024;

/// Checks an absolute path below the root, such as `/app/lock`.
pub(crate) fn validate(path: &str) -> Result<(), InvalidPath> {
    match fault_in_path(path) {
        None => Ok(()),
        Some(why) => Err(InvalidPath::new(path, why)),
    }
}

/// Checks a path like [`validate`], but also accepts the root `/`, for paths that only name a parent.
pub(crate) fn validate_or_root(path: &str) -> Result<(), InvalidPath> {
    if path == "/" { Ok(()) } else { validate(path) }
}

fn fault_in_path(path: &str) -> Option<&'static str> {
    let Some(elements) = path.strip_prefix('/') else {
        return Some("must start with '/', as in \"/app/lock\"");
    };
    if elements.is_empty() {
        return Some("must name a node below the root, as in \"/app/lock\"");
    }
    if path.len() > MAX_PATH_BYTES {
        return Some("must be at most 65536 bytes long");
    }
    if elements.ends_with('/') {
        return Some("must not end with '/'");
    }
    elements.split('/').find_map(fault_in_element)
}

fn fault_in_element(name: &str) -> Option<&'static str> {
    match name {
        "" => Some(EMPTY_ELEMENT),
        "." | ".." => Some(RELATIVE),
        _ if name.chars().any(is_forbidden) => Some(BAD_CHARACTER),
        _ => None,
    }
}

/// Returns whether the server refuses the character. It is written in Java, where characters above U+FFFF are two
/// surrogates, and it refuses surrogates.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// Returns the path of the child `name` of `dir`.
pub(crate) fn join(dir: &str, name: &str) -> String {
    let dir = if dir == "/" { "" } else { dir };
    format!("{dir}/{name}")
}

/// Splits a path into its directory and its last element: `/a/b` is `/a` and `b`, `/a` is `/` and `a`.
///
/// The root has no name (`/` and an empty text). A text without any slash is a name in the root.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        None | Some(("", _)) => ("/", path.trim_start_matches('/')),
        Some(parts) => parts,
    }
}

/// Returns the paths that must exist for `path` to exist, topmost first, the node itself last; nothing for the root.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|&at| at > 0);
    let itself = (path.len() > 1).then_some(path.len());
    ends.chain(itself).filter_map(|end| path.get(..end))
}

/// The part of the tree in which a client works, prepended to each of its paths. A clone is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Namespace {
    /// Empty, or an absolute path without a trailing slash.
    prefix: Arc<str>,
}

impl Namespace {
    /// Parses `/app`, or `app` as Curator writes it. An empty text or `/` means the whole tree.
    pub(crate) fn new(namespace: &str) -> Result<Self, InvalidPath> {
        if matches!(namespace, "" | "/") {
            return Ok(Self { prefix: Arc::from("") });
        }
        let prefix = if namespace.starts_with('/') { namespace.to_owned() } else { join("/", namespace) };
        match fault_in_path(&prefix) {
            None => Ok(Self { prefix: Arc::from(prefix) }),
            Some(why) => Err(InvalidPath::new(namespace, why)),
        }
    }

    /// Returns the path on the server.
    pub(crate) fn full(&self, path: &str) -> String {
        match path {
            "/" if !self.prefix.is_empty() => self.prefix.to_string(),
            _ => format!("{}{path}", self.prefix),
        }
    }

    /// Returns the path as the user of this client knows it. A path outside the namespace is left as it is.
    pub(crate) fn strip<'a>(&self, full: &'a str) -> &'a str {
        match full.strip_prefix(&*self.prefix) {
            Some("") => "/",
            Some(path) if path.starts_with('/') => path,
            _ => full,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn why(path: &str) -> &'static str {
        validate(path).expect_err(path).why
    }

    #[test]
    fn good_paths_pass() {
        for path in
            ["/a", "/app/lock", "/a/.b", "/a/b.", "/a/..b", "/a/...", "/a b", "/路径/ü", "/_c_x-lock-0000000001"]
        {
            assert_eq!(validate(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn each_fault_is_named() {
        assert!(why("").contains("start with"));
        assert!(why("a/b").contains("start with"));
        assert!(why("/").contains("below the root"));
        assert!(why("/a/").contains("end with"));
        for path in ["//a", "/a//b"] {
            assert_eq!(why(path), EMPTY_ELEMENT, "{path}");
        }
        for path in ["/.", "/..", "/a/.", "/a/..", "/./a", "/../a", "/a/../b"] {
            assert_eq!(why(path), RELATIVE, "{path}");
        }
    }

    #[test]
    fn the_edges_of_the_forbidden_ranges() {
        for c in "\0\u{1}\u{1f}\u{7f}\u{9f}\u{e000}\u{f8ff}\u{fff0}\u{ffff}\u{10000}😀".chars() {
            assert_eq!(why(&format!("/a{c}b")), BAD_CHARACTER, "{c:?}");
            assert_eq!(validate(&format!("/{c}")).expect_err("forbidden").why, BAD_CHARACTER);
        }
        for c in " ~\u{a0}\u{d7ff}\u{f900}\u{ffef}".chars() {
            assert_eq!(validate(&format!("/a{c}b")), Ok(()), "{c:?}");
        }
    }

    #[test]
    fn only_the_lenient_check_takes_the_root() {
        assert!(validate("/").is_err());
        assert_eq!(validate_or_root("/"), Ok(()));
        assert!(validate_or_root("").is_err());
    }

    #[test]
    fn the_error_names_the_value_and_what_is_allowed() {
        let error = validate("foo").expect_err("relative");
        assert_eq!(error.to_string(), "invalid path \"foo\": must start with '/', as in \"/app/lock\"");
        let control = validate("/a\n").expect_err("control").to_string();
        assert!(control.starts_with(r#"invalid path "/a\n": must not"#), "{control}");
        let long = validate(&"ü".repeat(500)).expect_err("relative").to_string();
        assert!(long.contains(&format!("\"{}\"...", "ü".repeat(SHOWN_CHARS))), "{long}");
    }

    #[test]
    fn a_path_has_an_end() {
        let longest = format!("/{}", "x".repeat(MAX_PATH_BYTES - 1));
        assert_eq!(validate(&longest), Ok(()));
        assert!(validate(&format!("{longest}x")).expect_err("too long").why.contains("65536"));
    }

    #[test]
    fn split_and_join() {
        assert_eq!(split("/a/b/c"), ("/a/b", "c"));
        assert_eq!(split("/a"), ("/", "a"));
        assert_eq!(split("/"), ("/", ""));
        assert_eq!(split("a"), ("/", "a"));
        assert_eq!(join("/", "a"), "/a");
        assert_eq!(join("/a", "b"), "/a/b");
    }

    #[test]
    fn ancestors_from_the_top() {
        assert_eq!(ancestors("/a/b/c").collect::<Vec<_>>(), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(ancestors("/a").collect::<Vec<_>>(), ["/a"]);
        assert_eq!(ancestors("/").count(), 0);
    }

    #[test]
    fn namespace_maps_both_ways() {
        let app = Namespace::new("/app").expect("valid");
        assert_eq!(app, Namespace::new("app").expect("Curator's spelling"));
        assert_eq!(app.full("/a"), "/app/a");
        assert_eq!(app.full("/"), "/app");
        assert_eq!(app.strip("/app/a"), "/a");
        assert_eq!(app.strip("/app"), "/");
        assert_eq!(app.strip("/application/a"), "/application/a");
        assert_eq!(app.strip("/other"), "/other");
    }

    #[test]
    fn no_namespace_changes_nothing() {
        for none in ["", "/"] {
            let none = Namespace::new(none).expect("none");
            assert_eq!(none.full("/a"), "/a");
            assert_eq!(none.full("/"), "/");
            assert_eq!(none.strip("/a"), "/a");
            assert_eq!(none.strip("/"), "/");
        }
    }

    #[test]
    fn bad_namespaces_are_named_as_given() {
        for namespace in ["app/", "/app/", "//", "a//b", "..", "a\0"] {
            assert_eq!(Namespace::new(namespace).expect_err(namespace).path, namespace);
        }
    }

    /// `PathUtils.validatePath` word for word, on UTF-16 units as Java processes them.
    fn java_accepts(path: &str) -> bool {
        let units: Vec<u16> = path.encode_utf16().collect();
        let at = |i: usize| units.get(i).copied();
        let [slash, dot] = [u16::from(b'/'), u16::from(b'.')];
        if at(0) != Some(slash) || (units.len() > 1 && units.last() == Some(&slash)) {
            return false;
        }
        (1..units.len()).all(|i| {
            let (c, before) = (units[i], units[i - 1]);
            let at_end = at(i + 1).is_none_or(|next| next == slash);
            match c {
                0 => false,
                _ if c == slash => before != slash,
                _ if c == dot && before == dot => !(units[i - 2] == slash && at_end),
                _ if c == dot => !(before == slash && at_end),
                _ => !matches!(c, 1..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff),
            }
        })
    }

    proptest! {
        #[test]
        fn the_verdict_is_the_servers(path in r"/?([a./\x00\x1f\x7f\x{9f}ü\x{e000}\x{fff0}😀]|\PC){0,12}") {
            prop_assert_eq!(validate_or_root(&path).is_ok(), java_accepts(&path));
        }

        #[test]
        fn any_text_is_judged_without_a_panic(path in any::<String>()) {
            prop_assert_eq!(validate_or_root(&path).is_ok(), java_accepts(&path));
            let _ = (split(&path), ancestors(&path).count(), quoted(&path));
        }

        #[test]
        fn split_undoes_join(dir in "(/[a-z]{1,3}){0,4}", name in "[a-z]{1,5}") {
            let dir = if dir.is_empty() { "/" } else { &dir };
            let path = join(dir, &name);
            prop_assert_eq!(split(&path), (dir, name.as_str()));
            prop_assert_eq!(validate(&path), Ok(()));
        }

        #[test]
        fn each_ancestor_is_the_directory_of_the_next(path in "(/[a-z]{1,3}){1,6}") {
            let all: Vec<_> = ancestors(&path).collect();
            prop_assert_eq!(all.last().copied(), Some(path.as_str()));
            prop_assert_eq!(split(all[0]).0, "/");
            for pair in all.windows(2) {
                prop_assert_eq!(split(pair[1]).0, pair[0]);
            }
        }

        #[test]
        fn strip_undoes_full(namespace in "(/[a-c]{1,2}){0,3}", path in "/|(/[a-c]{1,2}){1,3}") {
            let namespace = Namespace::new(&namespace).expect("valid");
            let full = namespace.full(&path);
            prop_assert_eq!(validate_or_root(&full), Ok(()));
            prop_assert_eq!(namespace.strip(&full), path.as_str());
        }
    }
}
