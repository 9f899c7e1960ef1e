//! What the leader sees: listings, the maximum, the members' records; each with a watch where one is of use.

use std::collections::BTreeMap;

use futures::stream::{StreamExt, TryStreamExt};
use tokio::time::Instant;

use super::aside::Until;
use super::{Maximum, Over, Term};
use crate::backend::{self, Watch};
use crate::throughput_balancer::events::Event;
use crate::throughput_balancer::maximum;
use crate::throughput_balancer::paths::read_ack;
use crate::throughput_balancer::record::{Record, Stamp, shown};
use crate::throughput_balancer::registration::AT_ONCE;
use crate::types::Stat;

impl Term<'_> {
    /// Brings up to date what has changed. Acknowledgements are asked for first: a member whose node is seen gone is gone
    /// only if its acknowledgement is too.
    pub(super) async fn look(&mut self) -> Result<(), Over> {
        let paths = &self.leader.registrar.paths;
        let acks = self.acks_watch.is_none().then(|| self.session.watch_children(&paths.acks));
        let members = self.members_watch.is_none().then(|| self.session.watch_children(&paths.members));
        let maximum = self.maximum_watch.is_none().then(|| self.session.watch_data(&paths.maximum));
        if let Some(acks) = acks {
            let (names, watch) = self.listed(acks.await).await?;
            self.acks_watch = Some(watch);
            let mut newest: BTreeMap<String, Stamp> = BTreeMap::new();
            for (member, stamp) in names.iter().filter_map(|name| read_ack(name)) {
                let known = newest.entry(member.to_owned()).or_insert(stamp);
                *known = stamp.max(*known);
            }
            self.view.list_acks(newest, Instant::now());
        }
        if let Some(members) = members {
            let (names, watch) = self.listed(members.await).await?;
            self.members_watch = Some(watch);
            let now = Instant::now();
            if self.view.list_members(names, now) {
                self.quiet.disturb(now);
                self.reconsider();
            }
        }
        if let Some(maximum) = maximum {
            let read = maximum.await;
            self.maximum_read(read).await?;
        }
        let (now, view) = (Instant::now(), &self.view);
        let until = now.checked_add(self.session.timeout()).unwrap_or(now);
        self.reserve.keep_for_the_gone(until, |name| view.is_there(name));
        Ok(())
    }

    /// A listing; a directory that somebody deleted is made anew, and looked at in the next round.
    async fn listed(
        &self,
        answer: Result<(Vec<String>, Stat, Watch), backend::Error>,
    ) -> Result<(Vec<String>, Watch), Over> {
        match answer {
            Ok((names, _, watch)) => Ok((names, watch)),
            Err(backend::Error::NoNode) => {
                self.leader.registrar.directories(&self.session).await.map_err(Over::Failed)?;
                Err(Over::Again)
            }
            Err(error) => Err(Over::Failed(error)),
        }
    }

    async fn maximum_read(&mut self, read: Result<(Vec<u8>, Stat, Watch), backend::Error>) -> Result<(), Over> {
        let path = &self.leader.registrar.paths.maximum;
        let seen = match read {
            Ok((data, stat, watch)) => {
                self.maximum_watch = Some(watch);
                match maximum::parse(&data) {
                    Ok(value) => Maximum::Good { value, version: stat.version },
                    Err(why) => Maximum::Bad(format!("{path}: {why}")),
                }
            }
            Err(backend::Error::NoNode) => {
                let (found, watch) = self.session.watch_exists(path).await.map_err(Over::Failed)?;
                if found.is_some() {
                    // It was created just now: it is read in the next round.
                    return Ok(());
                }
                self.maximum_watch = Some(watch);
                Maximum::Bad(format!("{path} does not exist; set it with set_max_throughput"))
            }
            Err(error) => return Err(Over::Failed(error)),
        };
        if seen != self.maximum {
            // At once; but for the first look, which comes with the members.
            if self.maximum != Maximum::Unread {
                self.reconsider();
                self.quiet.end();
            }
            match &seen {
                Maximum::Bad(why) => {
                    // That it is good again is told, also if that changes no share.
                    self.settled = None;
                    self.leader.events.maximum_is_invalid(why);
                }
                _ => self.leader.events.maximum_is_not_invalid(),
            }
            self.maximum = seen;
        }
        Ok(())
    }

    /// Those that could not be served may be by now.
    fn reconsider(&mut self) {
        let aside = self.aside.all();
        self.doubt(aside);
    }

    pub(super) fn doubt(&mut self, members: impl IntoIterator<Item = String>) {
        for member in members {
            self.view.doubt(&member);
            self.quiet.disturb(Instant::now());
        }
    }

    /// Reads the nodes of those that are new, or in doubt.
    pub(super) async fn read_members(&mut self) -> Result<(), Over> {
        let due = self.aside.due(Instant::now());
        self.doubt(due);
        let (session, paths) = (&self.session, &self.leader.registrar.paths);
        if self.view.is_in_doubt() {
            // What was found to be stale must not be read from a server that lags.
            session.sync(&paths.members).await.map_err(Over::Failed)?;
        }
        let reads = futures::stream::iter(self.view.unread()).map(|name| async move {
            let read = session.get_data(&paths.member(&name)).await;
            match read {
                Ok((data, stat)) => {
                    let record = Record::parse(&data).map_err(|why| format!("{} is no record: {why}", shown(&data)));
                    Ok(Some((name, stat.version, record)))
                }
                // It has left since the listing; the next one knows.
                Err(backend::Error::NoNode) => Ok(None),
                Err(error @ backend::Error::NoAuth) => {
                    // At no version that there is.
                    Ok(Some((name, -1, Err(format!("it cannot be read: {error:?}")))))
                }
                Err(error) => Err(Over::Failed(error)),
            }
        });
        let reads: Vec<_> = reads.buffered(AT_ONCE).try_collect().await?;
        for (name, version, record) in reads.into_iter().flatten() {
            if let Ok(record) = &record {
                self.reserve.note(&name, record);
            }
            let unreadable = record.as_ref().err().cloned();
            if self.view.read(&name, version, record.ok()) {
                self.leader.events.tell(Event::MemberEdited { member: name.clone() });
            }
            if let Some(why) = unreadable {
                self.put_aside(name, version, why).await?;
            }
        }
        let view = &self.view;
        self.aside.keep(|member| view.is_aside(member));
        Ok(())
    }

    /// Tells of a member that cannot be served; it is looked at again when that may have changed.
    pub(super) async fn put_aside(&mut self, member: String, version: i32, why: String) -> Result<(), Over> {
        let until = match self.session.watch_data(&self.leader.registrar.paths.member(&member)).await {
            Ok((_, stat, watch)) if stat.version == version => Until::Changed(watch),
            // It may be read by now, or has changed.
            Ok(_) => Until::Then(Instant::now()),
            Err(backend::Error::NoAuth) => Until::later(Instant::now()),
            // The next listing knows that it is gone.
            Err(backend::Error::NoNode) => Until::Now,
            Err(error) => return Err(Over::Failed(error)),
        };
        if self.aside.put(&member, &why, until) {
            self.leader.events.tell(Event::MemberUnreadable { member, why });
        }
        Ok(())
    }

    /// Acknowledgements of members that were never seen: only the end of a session frees what they stand for, unless
    /// somebody has made them by hand.
    pub(super) async fn prove_strangers(&mut self) -> Result<(), Over> {
        for (member, stamp) in self.view.strangers() {
            match self.session.get_data(&self.leader.registrar.paths.ack(&member, stamp)).await {
                Ok((_, stat)) => self.view.prove(&member, stat.ephemeral_owner != 0),
                // Gone by now: the next listing knows.
                Err(backend::Error::NoNode) => {}
                Err(backend::Error::NoAuth) => self.view.prove(&member, true),
                Err(error) => return Err(Over::Failed(error)),
            }
        }
        Ok(())
    }
}
