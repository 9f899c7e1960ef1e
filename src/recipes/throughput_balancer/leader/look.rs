//! Reads what the leader needs: listings, the maximum and the members' records, with watches where they help.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{StreamExt, TryStreamExt};
use tokio::time::Instant;

use super::term::{Maximum, Term};
use crate::engine::{self, Watch};
use crate::layout::throughput_balancer::{Decision, read_ack};
use crate::recipes::elected::End;
use crate::throughput_balancer::maximum;
use crate::throughput_balancer::members::AT_ONCE;
use crate::throughput_balancer::record::Record;
use crate::util::path::quoted_bytes;
use crate::util::znode::Stat;

impl Term<'_> {
    /// Reads what has changed. Acknowledgements are requested first: a member whose record is gone is gone only if its
    /// acknowledgement is gone too.
    pub(super) async fn look(&mut self) -> Result<(), End> {
        // This includes watches that have fired since the last wait.
        self.watches.fired().now_or_never();
        let paths = &self.leader.registrar.paths;
        let acks = self.watches.acks.is_none().then(|| self.session.watch_children(&paths.acks));
        let mut members = self.watches.members.is_none().then(|| self.session.watch_children(&paths.members));
        let maximum = self.watches.maximum.is_none().then(|| self.session.watch_data(&paths.maximum));
        let mut changed = false;
        if let Some(acks) = acks {
            let (names, watch) = self.listed(acks.await).await?;
            self.watches.acks = Some(watch);
            changed |= self.view.list_acks(newest(&names));
            if members.is_none() && !self.view.unverified_acks().is_empty() {
                // The acknowledgement may belong to a member that joined after the records were listed.
                members = Some(self.session.watch_children(&paths.members));
            }
        }
        if let Some(members) = members {
            let (names, watch) = self.listed(members.await).await?;
            self.watches.members = Some(watch);
            changed |= self.view.list_members(names);
        }
        if changed {
            self.view.reread_unusable();
            self.debounce.disturb(Instant::now());
        }
        if let Some(maximum) = maximum {
            let answer = maximum.await;
            self.update_maximum(answer).await?;
        }
        Ok(())
    }

    /// Returns a listing. If the directory was deleted by hand, creates it and ends the term.
    async fn listed(
        &self,
        answer: Result<(Vec<String>, Stat, Watch), engine::Error>,
    ) -> Result<(Vec<String>, Watch), End> {
        match answer {
            Ok((names, _, watch)) => Ok((names, watch)),
            Err(engine::Error::NoNode) => {
                self.leader.registrar.directories(&self.session).await.map_err(End::Failed)?;
                Err(End::Superseded)
            }
            Err(error) => Err(End::Failed(error)),
        }
    }

    async fn update_maximum(&mut self, answer: Result<(Vec<u8>, Stat, Watch), engine::Error>) -> Result<(), End> {
        let path = &self.leader.registrar.paths.maximum;
        let seen = match answer {
            Ok((data, stat, watch)) => {
                self.watches.maximum = Some(watch);
                match maximum::parse(&data) {
                    Ok(value) => Maximum::Good { value, version: stat.version },
                    Err(why) => Maximum::Bad(format!("{path}: {why}")),
                }
            }
            Err(engine::Error::NoNode) => {
                let (found, watch) = self.session.watch_exists(path).await.map_err(End::Failed)?;
                if found.is_some() {
                    // It was created just now: the next round reads it.
                    return Ok(());
                }
                self.watches.maximum = Some(watch);
                Maximum::Missing
            }
            Err(error) => return Err(End::Failed(error)),
        };
        if seen == self.maximum {
            return Ok(());
        }
        if self.maximum == Maximum::Missing {
            // The epoch was written with it, so this leader has to take over again.
            return Err(End::Superseded);
        }
        if self.maximum != Maximum::Unread {
            // A change of the maximum does not wait for the debounce.
            self.view.reread_unusable();
            self.debounce.skip();
        }
        match &seen {
            Maximum::Bad(why) => self.report_invalid_maximum(why),
            Maximum::Missing => {
                self.report_invalid_maximum(&format!("{path} does not exist; set it with set_max_throughput"));
            }
            Maximum::Unread | Maximum::Good { .. } => self.leader.events.clear_invalid_maximum(),
        }
        self.maximum = seen;
        Ok(())
    }

    fn report_invalid_maximum(&mut self, why: &str) {
        // Report `Settled` once the maximum is valid again, even if no share changes.
        self.reported.settled = None;
        self.leader.events.report_invalid_maximum(why);
    }

    /// Reads the nodes of members that are new, or may have changed.
    pub(super) async fn read_members(&mut self) -> Result<(), End> {
        let unread = self.view.unread();
        let (session, paths) = (&self.session, &self.leader.registrar.paths);
        if self.view.must_reread() {
            // What the leader knows is out of date. A server that lags may return the same again.
            session.sync(&paths.members).await.map_err(End::Failed)?;
        }
        let reads = futures::stream::iter(unread).map(|name| async move {
            match session.get_data(&paths.member(&name)).await {
                Ok((data, stat)) => Ok((name, Some((data, stat)))),
                Err(engine::Error::NoNode | engine::Error::NoAuth) => Ok((name, None)),
                Err(error) => Err(End::Failed(error)),
            }
        });
        let reads: Vec<_> = reads.buffered(AT_ONCE).try_collect().await?;
        let now = Instant::now();
        for (name, read) in reads {
            let Some((data, stat)) = read else {
                self.view.mark_unusable(&name, "its record may not be read, or is gone".into());
                continue;
            };
            let record = Record::parse(&data).map_err(|why| format!("{} is no record: {why}", quoted_bytes(&data)));
            // The time that earlier leaders have waited counts too, by the servers' clock.
            let age = Duration::from_millis(u64::try_from(self.epoch.began - stat.mtime).unwrap_or(0));
            if self.view.read(&name, &stat, record, now.checked_sub(age).unwrap_or(now)) {
                self.debounce.disturb(now);
            }
        }
        self.verify_acks().await
    }

    /// Finds out whether acknowledgements without a record belong to a session or were created by hand.
    async fn verify_acks(&mut self) -> Result<(), End> {
        let (session, paths) = (&self.session, &self.leader.registrar.paths);
        let reads = futures::stream::iter(self.view.unverified_acks()).map(|(name, ack)| async move {
            let found = session.exists(&paths.ack(&name, ack)).await;
            found.map(|found| (name, found)).map_err(End::Failed)
        });
        let reads: Vec<_> = reads.buffered(AT_ONCE).try_collect().await?;
        for (name, found) in reads {
            // If it is deleted by now, the next listing shows that.
            if let Some(stat) = found {
                self.view.set_ack_owned(&name, stat.ephemeral_owner != 0);
            }
        }
        Ok(())
    }
}

/// Returns the newest acknowledgement of each member.
fn newest(names: &[String]) -> BTreeMap<String, Decision> {
    let mut newest: BTreeMap<String, Decision> = BTreeMap::new();
    for (member, decision) in names.iter().filter_map(|name| read_ack(name)) {
        let known = newest.entry(member.to_owned()).or_insert(decision);
        *known = decision.max(*known);
    }
    newest
}
