//! Decides which nodes are contenders in a line.

use super::super::line::{Child, Line};
use super::super::role::Role;
use super::found::{Content, Found};
use crate::util::path::join;

/// Takes the contenders in a directory. `None` if there are none.
pub(super) fn line(found: &mut Found, path: &str) -> Option<Line> {
    let names = found.leaves(path, |name, content| Role::of_node(name, content.is_ephemeral()).is_some());
    if names.is_empty() {
        return None;
    }
    let others = found.children(path).filter(|name| names.binary_search_by(|one| one.as_str().cmp(name)).is_err());
    let others = others.map(str::to_owned).collect();
    let stat = found.stat(path).unwrap_or_default();
    let children = names.into_iter().map(|name| {
        let node = match found.take(&join(path, &name)) {
            Some(Content::Read { stat, data }) => Some((data, stat)),
            _ => None,
        };
        Child { name, node }
    });
    Some(Line::new(path, &stat, children.collect(), others))
}

/// Takes the contenders in a directory, which may have none, or may not exist.
pub(super) fn line_or_empty(found: &mut Found, path: &str) -> Line {
    let stat = found.stat(path).unwrap_or_default();
    line(found, path).unwrap_or_else(|| Line::new(path, &stat, Vec::new(), Vec::new()))
}
