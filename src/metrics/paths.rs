//! The values of the label `path`. Their number is bounded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::util::mutex::Mutex;
use crate::util::path::{InvalidPath, Namespace, validate};

/// How many paths that match no template each metric keeps. Counted per metric, so that many locks do not hide the one
/// election.
const MOST: usize = 100;
/// The label of all other paths.
const OTHER: &str = "other";

/// A path in which some elements match any name.
#[derive(Debug)]
struct Template {
    /// With the namespace.
    text: Arc<str>,
    /// `None` matches any element.
    elements: Vec<Option<String>>,
}

/// The templates of one client, and the paths that match none of them.
#[derive(Debug)]
pub(crate) struct Paths {
    namespace: Namespace,
    templates: Vec<Template>,
    plain: Mutex<Plain>,
}

#[derive(Debug)]
struct Plain {
    /// By metric.
    known: HashMap<&'static str, HashSet<Arc<str>>>,
    other: Arc<str>,
    /// Whether a warning about too many paths was logged.
    is_overflow_logged: bool,
}

impl Template {
    fn parse(text: &str, namespace: &Namespace) -> Result<Self, InvalidPath> {
        validate(text)?;
        let element = |element: &str| {
            let is_any = element.starts_with('{') && element.ends_with('}');
            (!is_any).then(|| element.to_owned())
        };
        Ok(Template { text: namespace.full(text).into(), elements: text.split('/').map(element).collect() })
    }

    fn fits(&self, path: &str) -> bool {
        let mut elements = path.split('/');
        let fit = |one: &Option<String>| {
            let element = elements.next();
            element.is_some_and(|element| one.as_ref().is_none_or(|one| one == element))
        };
        self.elements.iter().all(fit) && elements.next().is_none()
    }
}

impl Paths {
    /// Returns an error for the first template that is not a valid path.
    pub(crate) fn new(namespace: Namespace, templates: &[String]) -> Result<Self, InvalidPath> {
        let templates = templates.iter().map(|text| Template::parse(text, &namespace)).collect::<Result<_, _>>()?;
        let plain = Plain { known: HashMap::new(), other: OTHER.into(), is_overflow_logged: false };
        Ok(Paths { namespace, templates, plain: Mutex::new(plain) })
    }

    /// Returns the label for this metric of a recipe at this path.
    pub(crate) fn label(&self, metric: &'static str, path: &str) -> Arc<str> {
        if let Some(template) = self.templates.iter().find(|template| template.fits(path)) {
            return Arc::clone(&template.text);
        }
        let label = self.namespace.full(path);
        let mut plain = self.plain.lock();
        let known = plain.known.entry(metric).or_default();
        if let Some(known) = known.get(&*label) {
            return Arc::clone(known);
        }
        if known.len() < MOST {
            let label: Arc<str> = label.into();
            known.insert(Arc::clone(&label));
            return label;
        }
        if !std::mem::replace(&mut plain.is_overflow_logged, true) {
            tracing::warn!(
                event = "too_many_metric_paths",
                path,
                metric,
                "each metric keeps {MOST} paths and labels this one and all further ones {OTHER:?}; name the templates \
                 of paths with ClientBuilder::metric_paths"
            );
        }
        Arc::clone(&plain.other)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths(namespace: &str, templates: &[&str]) -> Paths {
        let namespace = Namespace::new(namespace).expect("a path");
        Paths::new(namespace, &templates.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
            .expect("they are paths")
    }

    #[test]
    fn the_first_template_that_fits_stands_for_a_path() {
        let paths = paths("", &["/orders/{id}", "/orders/{id}/{part}", "/{any}/fixed", "/a/{}"]);
        let label = |path| paths.label("metric", path).to_string();
        assert_eq!(label("/orders/4711"), "/orders/{id}");
        assert_eq!(label("/orders/fixed"), "/orders/{id}", "the first one");
        assert_eq!(label("/orders/4711/lines"), "/orders/{id}/{part}");
        assert_eq!(label("/x/fixed"), "/{any}/fixed");
        assert_eq!(label("/a/b"), "/a/{}");
        for plain in ["/orders", "/orders/1/2/3", "/a", "/elsewhere"] {
            assert_eq!(label(plain), plain);
        }
    }

    #[test]
    fn the_namespace_is_a_part_of_the_label_but_not_of_the_template() {
        let paths = paths("shop", &["/orders/{id}"]);
        assert_eq!(&*paths.label("metric", "/orders/4711"), "/shop/orders/{id}");
        assert_eq!(&*paths.label("metric", "/plain"), "/shop/plain");
    }

    #[test]
    fn the_many_paths_of_one_metric_leave_room_for_those_of_another() {
        let paths = paths("", &[]);
        for number in 0..2 * MOST {
            paths.label("locks", &format!("/lock-{number}"));
        }
        assert_eq!(&*paths.label("locks", "/leader"), OTHER);
        assert_eq!(&*paths.label("leaders", "/leader"), "/leader");
    }

    #[test]
    fn a_template_is_a_path() {
        for bad in ["orders/{id}", "/orders/", "/a//{b}", "", "/a/../{b}"] {
            let refused = Paths::new(Namespace::new("").expect("none"), &["/good/{id}".to_owned(), bad.to_owned()])
                .expect_err("it is no path");
            assert_eq!(refused.path, bad);
        }
    }

    proptest! {
        #[test]
        fn however_many_paths_there_are_the_labels_are_few(numbers in proptest::collection::vec(0..1000_u32, 0..2000)) {
            let paths = paths("", &["/orders/{id}"]);
            let mut labels = HashSet::new();
            for number in numbers {
                labels.insert(paths.label("metric", &format!("/orders/{number}")));
                let plain = paths.label("metric", &format!("/plain-{number}"));
                // A path keeps its label.
                prop_assert_eq!(&paths.label("metric", &format!("/plain-{number}")), &plain);
                labels.insert(plain);
            }
            prop_assert!(labels.len() <= MOST + 2, "{}", labels.len());
        }
    }
}
