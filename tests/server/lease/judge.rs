//! Judges the records of one case.

use super::moment::Moment;
use super::sampler::Timeline;
use super::witness::Sight;

/// All that is known of one leader through one fault.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) holder: &'a Timeline,
    pub(crate) successor: &'a Timeline,
    pub(crate) sight: Sight,
    /// When the fault began.
    pub(crate) fault: Moment,
    /// The fault was that the holder's process was stopped, so it could not be asked meanwhile.
    pub(crate) stopped: bool,
}

/// Milliseconds of a case in which the old leader's node was deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// From the last yes of the old leader to the moment at which its node was known to be gone.
    pub(crate) margin: f64,
    /// From the end of the old leader's belief to the last read that still found its node.
    pub(crate) certain: f64,
    /// How long the leader said yes after the beginning of the fault.
    pub(crate) led: f64,
    /// How long its node existed.
    pub(crate) stood: f64,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    /// The node was deleted after the old leader had said no.
    Safe(Figures),
    /// The node was deleted, and the records are too coarse to tell which was first.
    Unclear(Figures),
    /// Two led, or one kept leading after its node was deleted.
    Broken(String),
}

/// Judges a case in which the node was deleted; `None` if it was not.
///
/// Each record is an interval, and doubt favours neither verdict: `Broken` and `Safe` are both proven.
pub(crate) fn judge(evidence: &Evidence<'_>) -> Option<Verdict> {
    let successor = evidence.successor.first_yes();
    let gone = [evidence.sight.gone, successor.map(|span| span.end)];
    let gone = gone.into_iter().flatten().min()?;
    let holder = &evidence.holder.until_led_again(gone, evidence.successor);
    let last_yes = holder.last_yes().expect("it led before the fault");
    if last_yes.begin > gone {
        let late = last_yes.begin.millis_since(gone);
        let how = if successor.is_some_and(|span| last_yes.begin > span.end) {
            "while another led"
        } else {
            "after its node had gone"
        };
        return Some(Verdict::Broken(format!("it said to lead {how}, for {late:.1} ms at least")));
    }
    if evidence.stopped && holder.first_asked_after(gone) == Some(true) {
        return Some(Verdict::Broken("its first word after the wake-up was yes".to_owned()));
    }
    let no = holder.final_no();
    let end = match (evidence.stopped, no) {
        (true, _) => last_yes.end,
        (false, Some(no)) => no.end,
        (false, None) => return Some(Verdict::Broken("it never said no".to_owned())),
    };
    // The node existed when the watch was set, so the fault is a bound if no later read was answered.
    let there = evidence.sight.there.unwrap_or(evidence.fault);
    let figures = Figures {
        margin: gone.millis_since(last_yes.end),
        certain: there.millis_since(end),
        led: last_yes.end.millis_since(evidence.fault).max(0.0),
        stood: gone.millis_since(evidence.fault),
    };
    Some(if figures.certain > 0.0 { Verdict::Safe(figures) } else { Verdict::Unclear(figures) })
}

mod tests {
    use std::time::Duration;

    use super::super::sampler::Span;
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment(0) + Duration::from_millis(millis)
    }

    /// Yes from 0 up to and including `last_yes`, no from there to 5 000, asked every 10 ms, but not within `stop`.
    fn said(last_yes: u64, stop: std::ops::Range<u64>) -> Timeline {
        let mut timeline = Timeline::default();
        for millis in (0..5_000).step_by(10).filter(|millis| !stop.contains(millis)) {
            let (begin, end) = (at(millis), at(millis + 1));
            timeline.note(millis <= last_yes, Span { begin, end });
        }
        timeline
    }

    fn verdict(holder: &Timeline, successor: &Timeline, there: u64, gone: u64, stopped: bool) -> Verdict {
        let sight = Sight { there: Some(at(there)), gone: Some(at(gone)), unclear: None };
        let evidence = Evidence { holder, successor, sight, fault: at(1_000), stopped };
        judge(&evidence).expect("the node was deleted")
    }

    #[test]
    fn the_judge_tells_safe_from_broken_and_from_unclear() {
        let empty = Timeline::default();
        let holder = said(2_000, 0..0);
        let safe = verdict(&holder, &empty, 2_900, 2_920, false);
        let Verdict::Safe(figures) = safe else { panic!("{safe:?}") };
        assert_eq!([figures.margin, figures.certain, figures.led, figures.stood], [919.0, 889.0, 1_001.0, 1_920.0]);
        let late = verdict(&holder, &empty, 1_900, 1_999, false);
        assert!(matches!(late, Verdict::Broken(_)), "{late:?}");
        let unclear = verdict(&holder, &empty, 1_990, 2_020, false);
        assert!(matches!(unclear, Verdict::Unclear(_)), "{unclear:?}");
        let mut successor = Timeline::default();
        let (begin, end) = (at(1_980), at(1_981));
        successor.note(true, Span { begin, end });
        let both = verdict(&holder, &successor, 2_900, 2_920, false);
        assert!(matches!(&both, Verdict::Broken(how) if how.contains("another")), "{both:?}");
    }

    #[test]
    fn the_judge_lets_the_old_leader_be_elected_again_but_only_after_the_other() {
        let (mut holder, mut successor) = (said(1_000, 0..0), Timeline::default());
        let at_once = |millis| Span { begin: at(millis), end: at(millis + 1) };
        let mut between = |from: u64, to: u64| {
            (from..to).step_by(10).for_each(|millis| successor.note(true, at_once(millis)));
            successor.note(false, at_once(to));
        };
        between(2_950, 5_500);
        (6_000..7_000).step_by(10).for_each(|millis| holder.note(true, at_once(millis)));
        let again = verdict(&holder, &successor, 2_900, 2_920, false);
        assert!(matches!(again, Verdict::Safe(_)), "{again:?}");
        let alone = verdict(&holder, &Timeline::default(), 2_900, 2_920, false);
        assert!(matches!(alone, Verdict::Broken(_)), "{alone:?}");
        (5_600..6_500).step_by(10).for_each(|millis| successor.note(true, at_once(millis)));
        let both = verdict(&holder, &successor, 2_900, 2_920, false);
        assert!(matches!(&both, Verdict::Broken(how) if how.contains("another")), "{both:?}");
    }

    #[test]
    fn the_judge_counts_the_first_answer_after_a_stop() {
        let empty = Timeline::default();
        let good = verdict(&said(1_000, 1_001..3_000), &empty, 2_900, 2_920, true);
        assert!(matches!(good, Verdict::Safe(_)), "{good:?}");
        let bad = verdict(&said(3_000, 1_001..3_000), &empty, 2_900, 2_920, true);
        assert!(matches!(bad, Verdict::Broken(_)), "{bad:?}");
    }
}
