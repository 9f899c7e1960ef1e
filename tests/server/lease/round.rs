//! One fault that hits a group of leaders at once, from the first yes to the last proof.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

use super::holders::{Group, Holders, Place, Successors};
use super::judge::{Evidence, Verdict, judge};
use super::moment::Moment;
use super::sampler::Timeline;
use super::table::{Case, Ending};
use super::witness::{Sight, Witness};

const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// The properties of a fault that a round needs.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) name: String,
    /// The servers that it does not touch: witness and successors connect to them.
    pub(crate) servers: String,
    pub(crate) group: Group,
    /// If it is that the leaders' process is stopped: for how long.
    pub(crate) stop: Option<Duration>,
    /// Whether the session may well survive it.
    pub(crate) may_pass: bool,
}

/// A group of leaders, those behind them and who watches.
#[derive(Debug)]
pub(crate) struct Round<H> {
    fault: Fault,
    pub(crate) holders: H,
    places: Vec<Place>,
    successors: Successors,
    witness: Witness,
    begun: Moment,
    /// When the fault was over, if that was before its outcome was known.
    over: Option<Moment>,
}

impl<H: Holders> Round<H> {
    /// From here on everything is watched. The fault comes next.
    pub(crate) async fn begin(fault: Fault, holders: H) -> Round<H> {
        let places = holders.places().to_vec();
        let successors = Successors::wait_behind(&fault.servers, &places).await;
        let witness = Witness::of(&fault.servers, &places).await;
        Round { fault, holders, places, successors, witness, begun: Moment::now(), over: None }
    }

    /// Waits until each leader was asked after this moment and said yes, or has lost its node.
    pub(crate) async fn all_lead_after(&mut self, moment: Moment) {
        let late = Moment::now() + PATIENCE;
        while Moment::now() < late {
            let report = self.holders.report().await;
            let sights = self.witness.sights();
            let ready = |(holder, sight): (&Timeline, &Sight)| !sight.is_open() || holder.is_yes_after(moment);
            if report.timelines.iter().zip(&sights).all(ready) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until each leader's node is gone or, if that may be, its owner has led for a session timeout since
    /// `over`, when the fault (or what of it could pass) was over. Longer than the timeout it can only lead if the
    /// session is alive.
    pub(crate) async fn settle(&mut self, over: Option<Moment>) {
        self.over = over;
        let late = Moment::now() + PATIENCE;
        loop {
            let sights = self.witness.sights();
            let mut open = sights.iter().filter(|sight| sight.is_open()).count();
            if let Some(over) = over.filter(|_| open > 0) {
                let report = self.holders.report().await;
                let kept = (report.timelines.iter().zip(&sights))
                    .filter(|(holder, sight)| sight.is_open() && holder.is_yes_after(over + self.fault.group.granted));
                open -= kept.count();
            }
            // The judge tells what is missing.
            if open == 0 || Moment::now() > late {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The fault is over: waits until every old leader has rejoined, and judges.
    pub(crate) async fn end(mut self) -> Vec<Case> {
        let late = Moment::now() + PATIENCE;
        // In this order: the holders are asked until after the last news of their nodes.
        let (sights, successors, report) = loop {
            let sights = self.witness.sights();
            let successors = self.successors.timelines();
            let report = self.holders.report().await;
            let back = (0..self.places.len()).all(|i| match &report.nodes[i] {
                _ if sights[i].unclear.is_some() => true,
                // A node of the new session, or the one that was kept.
                Some(node) => (*node != self.places[i].node) == sights[i].gone.is_some(),
                None => false,
            });
            if back || Moment::now() > late {
                break (sights, successors, report);
            }
            tokio::time::sleep(PAUSE).await;
        };
        let mut cases = Vec::new();
        for i in 0..self.places.len() {
            let evidence = Evidence {
                holder: &report.timelines[i],
                successor: &successors[i],
                sight: sights[i],
                fault: self.begun,
                stopped: self.fault.stop.is_some(),
            };
            let mut ending = self.judge(&self.places[i].node, report.nodes[i].as_deref(), &evidence).await;
            if let Ending::Broken(how) | Ending::Unclear(how) = &mut ending {
                let story = evidence.holder.story(self.begun);
                let next = evidence.successor.story(self.begun);
                let sight = evidence.sight.story(self.begun);
                how.push_str(&format!("; since the fault: leader {story}; successor {next}; node {sight}"));
            }
            cases.push(Case {
                fault: self.fault.name.clone(),
                policy: match self.fault.group.options(i).0 {
                    ErrorPolicy::Session => "session",
                    _ => "standard",
                },
                ending,
            });
        }
        self.holders.close().await;
        self.successors.close().await;
        cases
    }

    /// `node` is the one that the leader had before the fault, `now` the one it has.
    async fn judge(&self, node: &str, now: Option<&str>, evidence: &Evidence<'_>) -> Ending {
        if let Some(stop) = self.fault.stop {
            let (wanted, was) = (stop.as_secs_f64() * 1e3, evidence.holder.longest_gap());
            // The signals take a moment to arrive.
            if was < wanted * 0.95 {
                return Ending::Unclear(format!("the process was stopped for {was:.0} of {wanted:.0} ms"));
            }
            if !self.fault.may_pass && evidence.sight.gone > self.over {
                return Ending::Unclear("the process resumed before its node was gone".to_owned());
            }
        }
        let broken = |how: &str| Ending::Broken(how.to_owned());
        match (judge(evidence), evidence.sight.unclear) {
            (Some(Verdict::Broken(how)), _) => return Ending::Broken(how),
            (_, Some(why)) => return Ending::Unclear(why.to_owned()),
            (Some(_), None) if now.is_none_or(|now| now == node) => return broken("it did not enter the line again"),
            (Some(Verdict::Safe(figures)), None) => return Ending::Safe(figures),
            (Some(Verdict::Unclear(figures)), None) => return Ending::Unclear(format!("{figures:.1?}")),
            (None, None) => {}
        }
        let led_on = |over: Moment| evidence.holder.is_yes_after(over + self.fault.group.granted);
        if evidence.successor.first_yes().is_some() {
            broken("two led")
        } else if !self.fault.may_pass {
            broken("its node outlived the fault")
        } else if !self.witness.finds(node).await {
            Ending::Unclear("its node was deleted after the end of the case, or is not seen".to_owned())
        } else if now != Some(node) || !self.over.is_some_and(led_on) {
            broken("its node stayed, and it did not lead again")
        } else {
            Ending::Kept(evidence.holder.noes_after(self.begun))
        }
    }
}
