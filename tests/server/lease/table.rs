//! The results, case by case and in a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::judge::Figures;

/// How one case ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The node was deleted while its owner was cut off or stopped, certainly after the last yes.
    Safe(Figures),
    /// The node was kept, and its owner led again or still, alone; so many milliseconds it did not.
    Kept(f64),
    /// Not counted: the records are too coarse, or the fault was not what it should have been.
    Unclear(String),
    Broken(String),
}

/// One leader through one fault.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) fault: String,
    pub(crate) policy: &'static str,
    pub(crate) ending: Ending,
}

/// All cases of a run.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) cases: Vec<Case>,
}

impl Table {
    pub(crate) fn safe(&self) -> usize {
        self.count(|ending| matches!(ending, Ending::Safe(_)))
    }

    pub(crate) fn kept(&self) -> usize {
        self.count(|ending| matches!(ending, Ending::Kept(_)))
    }

    fn count(&self, wanted: impl Fn(&Ending) -> bool) -> usize {
        self.cases.iter().filter(|case| wanted(&case.ending)).count()
    }

    fn rows(&self) -> BTreeMap<(&str, &'static str), Vec<&Ending>> {
        let mut rows: BTreeMap<_, Vec<&Ending>> = BTreeMap::new();
        for case in &self.cases {
            rows.entry((case.fault.as_str(), case.policy)).or_default().push(&case.ending);
        }
        rows
    }

    /// The faults of which nothing was learnt.
    pub(crate) fn idle(&self) -> BTreeSet<&str> {
        let is_proof = |case: &&Case| matches!(case.ending, Ending::Safe(_) | Ending::Kept(_));
        let proven: BTreeSet<&str> = self.cases.iter().filter(is_proof).map(|case| case.fault.as_str()).collect();
        let all = self.cases.iter().map(|case| case.fault.as_str());
        all.filter(|fault| !proven.contains(fault)).collect()
    }

    /// The broken cases.
    pub(crate) fn broken(&self) -> Vec<String> {
        let broken = self.cases.iter().filter_map(|case| match &case.ending {
            Ending::Broken(how) => Some(format!("{}, policy {}: {how}", case.fault, case.policy)),
            _ => None,
        });
        broken.collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Milliseconds. n: cases in which the node was deleted. margin: from the last yes of the old leader to\n\
             the news that its node was gone, so all that was given away. certain: from its no to the last read that\n\
             still found the node. led, stood: how long after the beginning of the fault the leader said yes and its\n\
             node existed. kept: cases in which the node stayed; without: how long its owner did not lead then.\n"
        )?;
        writeln!(
            f,
            "{:<46} {:<8} {:>3} | {:^22} | {:>7} | {:^11} | {:>4} {:>7} |",
            "", "", "", "margin", "certain", "mean", "", "mean"
        )?;
        writeln!(
            f,
            "{:<46} {:<8} {:>3} | {:>8} {:>5} {:>7} | {:>7} | {:>5} {:>5} | {:>4} {:>7} | {:>7} {:>6}",
            "fault",
            "policy",
            "n",
            "smallest",
            "mean",
            "largest",
            "least",
            "led",
            "stood",
            "kept",
            "without",
            "unclear",
            "broken"
        )?;
        for ((fault, policy), endings) in self.rows() {
            let figures: Vec<&Figures> = (endings.iter())
                .filter_map(|ending| match ending {
                    Ending::Safe(figures) => Some(figures),
                    _ => None,
                })
                .collect();
            let kept: Vec<f64> = (endings.iter())
                .filter_map(|ending| match ending {
                    Ending::Kept(without) => Some(*without),
                    _ => None,
                })
                .collect();
            let column = |of: fn(&Figures) -> f64| figures.iter().map(|figures| of(figures)).collect::<Vec<f64>>();
            let margins = column(|figures| figures.margin);
            writeln!(
                f,
                "{fault:<46} {policy:<8} {:>3} | {:>8} {:>5} {:>7} | {:>7} | {:>5} {:>5} | {:>4} {:>7} | {:>7} {:>6}",
                figures.len(),
                smallest(&margins),
                mean(&margins),
                largest(&margins),
                smallest(&column(|figures| figures.certain)),
                mean(&column(|figures| figures.led)),
                mean(&column(|figures| figures.stood)),
                kept.len(),
                mean(&kept),
                endings.iter().filter(|ending| matches!(ending, Ending::Unclear(_))).count(),
                endings.iter().filter(|ending| matches!(ending, Ending::Broken(_))).count(),
            )?;
        }
        for case in &self.cases {
            if let Ending::Unclear(why) = &case.ending {
                writeln!(f, "unclear: {}, {}: {why}", case.fault, case.policy)?;
            }
        }
        write!(f, "{} cases: {} safe, {} kept", self.cases.len(), self.safe(), self.kept())
    }
}

fn smallest(values: &[f64]) -> String {
    shown(values.iter().copied().reduce(f64::min))
}

fn largest(values: &[f64]) -> String {
    shown(values.iter().copied().reduce(f64::max))
}

fn mean(values: &[f64]) -> String {
    shown((!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64))
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
}
