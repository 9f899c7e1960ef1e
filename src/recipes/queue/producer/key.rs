//! What the names of a producer's items say besides their numbers.

use std::time::{Duration, SystemTime};

use crate::layout::queue::{Key, TIMES};
use crate::queue::time::millis_after;
use crate::util::path;

/// More would leave too little room for other names in a request.
const MOST_ID_BYTES: usize = 255;

/// What the caller has set for the items of one handle.
#[derive(Debug, Clone, Default)]
pub(super) enum Setting {
    #[default]
    None,
    Priority(i32),
    /// The delay of each item begins when it is put.
    After(Duration),
    At(SystemTime),
    Id(String),
    /// Two of these, of different kinds: no name has room for both.
    Both(&'static str, &'static str),
}

impl Setting {
    /// Returns the setting of a handle that had this one, and gets another.
    pub(super) fn and(&self, next: Setting) -> Setting {
        match (self.kind(), next.kind()) {
            _ if matches!(self, Setting::Both(..)) => self.clone(),
            (Some(one), Some(other)) if one != other => Setting::Both(one, other),
            _ => next,
        }
    }

    fn kind(&self) -> Option<&'static str> {
        match self {
            Setting::None | Setting::Both(..) => None,
            Setting::Priority(_) => Some("a priority"),
            Setting::After(_) | Setting::At(_) => Some("a time"),
            Setting::Id(_) => Some("an id"),
        }
    }

    /// Returns the key of an item that is put `now`, or what is wrong with the setting.
    pub(super) fn key(&self, now: SystemTime) -> Result<Key, String> {
        match self {
            Setting::None => Ok(Key::None),
            Setting::Priority(priority) => Ok(Key::Priority(*priority)),
            Setting::After(delay) => time(now, *delay).ok_or_else(|| format!("a delay of {delay:?} {TOO_LATE}")),
            Setting::At(at) => time(*at, Duration::ZERO).ok_or_else(|| format!("a time that {TOO_LATE}")),
            Setting::Id(id) => id_key(id),
            Setting::Both(one, other) => {
                Err(format!("{one} and {other}: an item has only one of these, because Curator's names hold only one"))
            }
        }
    }
}

const TOO_LATE: &str = "ends later than the year 2526, the last one that is allowed";

/// Returns the key of the time. What is over before the first time that can be written is due with it.
fn time(from: SystemTime, delay: Duration) -> Option<Key> {
    let time = millis_after(from, delay).max(*TIMES.start());
    TIMES.contains(&time).then_some(Key::Time(time))
}

fn id_key(id: &str) -> Result<Key, String> {
    if id.is_empty() || id.len() > MOST_ID_BYTES {
        return Err(format!("an id of {} bytes; from 1 to {MOST_ID_BYTES} are allowed", id.len()));
    }
    let key = Key::of_id(id);
    if key.looks_like_a_time() {
        return Err(format!(
            "the id {id}: 11 digits and capitals up to F, or 13 to 16 with a capital, are taken for the time of a \
             delayed item; add any other character"
        ));
    }
    path::validate(&format!("/{key}")).map_err(|error| format!("the id {}: {}", path::quoted(id), error.why))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn times_are_rounded_up_and_have_bounds() {
        let now = UNIX_EPOCH + Duration::from_secs(1_785_000_000);
        let key = |setting: Setting| setting.key(now);
        assert_eq!(key(Setting::After(Duration::ZERO)), Ok(Key::Time(1_785_000_000_000)));
        assert_eq!(key(Setting::After(Duration::from_nanos(1))), Ok(Key::Time(1_785_000_000_001)));
        assert_eq!(key(Setting::At(now)), Ok(Key::Time(1_785_000_000_000)));
        assert_eq!(key(Setting::At(UNIX_EPOCH - Duration::from_secs(1))), Ok(Key::Time(*TIMES.start())));
        let why = key(Setting::After(Duration::MAX)).expect_err("too late");
        assert!(why.contains("a delay of") && why.contains("2526"), "{why}");
        let far = UNIX_EPOCH + Duration::from_millis(TIMES.end().unsigned_abs() + 1);
        assert!(key(Setting::At(far)).is_err() && key(Setting::At(far - Duration::from_millis(1))).is_ok());
    }

    #[test]
    fn two_settings_of_one_kind_are_the_second_and_of_two_kinds_an_error() {
        let key = |settings: &[Setting]| {
            settings.iter().fold(Setting::None, |all, next| all.and(next.clone())).key(UNIX_EPOCH)
        };
        let (id, at) = (Setting::Id("a".to_owned()), Setting::At(UNIX_EPOCH));
        assert_eq!(key(&[Setting::Priority(1), Setting::Priority(2)]), Ok(Key::Priority(2)));
        assert_eq!(key(&[Setting::After(Duration::MAX), at.clone()]), Ok(Key::Time(*TIMES.start())));
        let why = key(&[id.clone(), at.clone()]).expect_err("both");
        assert!(why.starts_with("an id and a time: an item has only one"), "{why}");
        let why = key(&[at, Setting::Priority(1), id]).expect_err("all");
        assert!(why.starts_with("a time and a priority"), "{why}");
    }

    #[test]
    fn ids_are_changed_as_by_curator_or_refused() {
        let key = |id: &str| id_key(id).map(|key| key.to_string());
        assert_eq!(key("my/i|d"), Ok("|my_i_d|".to_owned()));
        assert_eq!(key(&"x".repeat(255)).map(|key| key.len()), Ok(257));
        for (id, why) in [
            ("", "an id of 0 bytes; from 1 to 255 are allowed".to_owned()),
            (&*"x".repeat(256), "an id of 256 bytes".to_owned()),
            ("10000000042", "the id 10000000042: 11 digits".to_owned()),
            ("7FFFFFFFFFFFFFFF", "the id 7FFFFFFFFFFFFFFF: 11 digits".to_owned()),
            ("a\0b", "the id".to_owned()),
        ] {
            let error = key(id).expect_err(id);
            assert!(error.starts_with(&why), "{error}");
        }
    }
}
