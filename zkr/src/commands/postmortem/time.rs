//! Times as operators write them, in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zookeeper_recipes::inspect::postmortem::Span;

const DAY_MS: i64 = 86_400_000;
const MINUTE_MS: i64 = 60_000;
/// The length of an offset from UTC, such as `+01:00`.
const OFFSET_BYTES: usize = 6;

/// A time that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// In milliseconds since 1970.
    At(i64),
    /// In milliseconds since midnight, UTC: the last such time that the logs cover.
    Daily(i64),
}

impl Time {
    /// Returns the time in milliseconds since 1970. One without a date is on the last day on which the logs cover it;
    /// if there is none, on the last day.
    pub fn resolve(self, span: &Span) -> i64 {
        match self {
            Time::At(ms) => ms,
            Time::Daily(ms) => {
                let midnight = span.last.ms.saturating_sub(span.last.ms.rem_euclid(DAY_MS));
                let last = midnight.saturating_add(ms);
                let before = last.saturating_sub(DAY_MS);
                if last > span.last.ms && before >= span.first.ms { before } else { last }
            }
        }
    }
}

/// Parses a time.
pub fn time(value: &str) -> Result<Time, String> {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = match value.parse() {
        Ok(ms) if is_number => Some(Time::At(ms)),
        _ => daily(value).map(Time::Daily).or_else(|| dated(value).map(Time::At)),
    };
    parsed.ok_or_else(|| {
        "it must be HH:MM or HH:MM:SS (UTC), a date and time such as 2026-11-30T03:14:15Z or \
         2026-11-30T04:14:15+01:00, or milliseconds since 1970"
            .to_owned()
    })
}

/// Parses a time of day, by adding it to a day.
fn daily(value: &str) -> Option<i64> {
    let with_seconds = if value.len() == "03:14".len() { format!("{value}:00") } else { value.to_owned() };
    if value.len() < "03:14".len() || with_seconds.contains(['T', ' ']) {
        return None;
    }
    dated(&format!("1970-01-01T{with_seconds}")).filter(|ms| (0..DAY_MS).contains(ms))
}

fn dated(value: &str) -> Option<i64> {
    let (local, offset) = offset(value).unwrap_or((value, 0));
    let time = humantime::parse_rfc3339_weak(local).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()?.checked_sub(offset * MINUTE_MS)
}

/// Returns the part before an offset from UTC, and the offset in minutes.
fn offset(value: &str) -> Option<(&str, i64)> {
    let (local, offset) = value.split_at_checked(value.len().checked_sub(OFFSET_BYTES)?)?;
    let sign = match offset.as_bytes().first()? {
        b'+' => 1,
        // The hyphens of a date are not before a time.
        b'-' if local.contains(':') => -1,
        _ => return None,
    };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let number = |digits: &str| digits.parse::<u8>().ok().map(i64::from);
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some((local, sign * (hours * 60 + minutes)))
}

/// Returns a time as text, in UTC.
pub fn shown(ms: i64) -> String {
    let since = Duration::from_millis(ms.try_into().unwrap_or_default());
    // Later than the year 9999 there is no such text.
    let time = SystemTime::UNIX_EPOCH.checked_add(since).filter(|_| ms < 253_402_300_800_000);
    time.map_or_else(|| format!("{ms}ms"), |time| humantime::format_rfc3339_millis(time).to_string())
}

/// Returns a duration in milliseconds as text, in its two largest units.
pub fn lasted(ms: i64) -> String {
    let (sign, ms) = (if ms < 0 { "-" } else { "" }, ms.unsigned_abs());
    let (seconds, minutes, hours, days) = (ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    match (days, hours, minutes, seconds) {
        (0, 0, 0, 0) => format!("{sign}{ms}ms"),
        (0, 0, 0, _) => format!("{sign}{seconds}.{:03}s", ms % 1000),
        (0, 0, _, _) => format!("{sign}{minutes}m {}s", seconds % 60),
        (0, _, _, _) => format!("{sign}{hours}h {}m", minutes % 60),
        _ => format!("{sign}{days}d {}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_a_date_are_in_utc_unless_they_have_an_offset() {
        let expected = Ok(Time::At(1_795_991_655_000));
        for text in
            ["2026-11-29T22:34:15Z", "2026-11-29 22:34:15", "2026-11-29T23:34:15+01:00", "2026-11-29T17:04:15-05:30"]
        {
            assert_eq!(time(text), expected, "{text}");
        }
        assert_eq!(time("1795991655000"), expected);
        assert_eq!(time("2026-11-29T22:34:15.250Z"), Ok(Time::At(1_795_991_655_250)));
    }

    #[test]
    fn a_time_without_a_date() {
        assert_eq!(time("03:14"), Ok(Time::Daily(11_640_000)));
        assert_eq!(time("03:14:15.5"), Ok(Time::Daily(11_655_500)));
        for text in ["", "3", "24:00", "03:60", "3:14", "noon", "03:14+25:00", "-5", "2026-11-29", "+123"] {
            assert!(time(text).is_err() || text == "3", "{text}: {:?}", time(text));
        }
    }

    #[test]
    fn times_are_shown_in_utc_and_durations_in_two_units() {
        assert_eq!(shown(1_795_991_655_250), "2026-11-29T22:34:15.250Z");
        assert_eq!([i64::MAX, -1].map(shown), ["9223372036854775807ms", "1970-01-01T00:00:00.000Z"]);
        let texts = [0, 999, 2_333, 61_000, 3_660_000, 90_000_000, -1_500].map(lasted);
        assert_eq!(texts, ["0ms", "999ms", "2.333s", "1m 1s", "1h 1m", "1d 1h", "-1.500s"]);
    }
}
