//! Reads what the leader needs: listings, settings and records, with watches where they help.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{StreamExt, TryStreamExt};
use tokio::time::Instant;

use super::term::{RecordWatch, Term, Watches};
use super::view::{Present, Record, Standing};
use crate::engine::{self, Watch};
use crate::layout::partition_assigner::{Assignment, Config, Presence};
use crate::layout::partition_assigner::{read_member, read_owned};
use crate::partition_assigner::events::Event;
use crate::partition_assigner::member::registration::AT_ONCE;
use crate::partition_assigner::partitions::{self, Source};
use crate::recipes::elected::End;
use crate::util::wait::sleep_until_opt;
use crate::util::znode::Stat;

/// How long changes are collected before they are read, because members join and hand over in bunches.
const COLLECT: Duration = Duration::from_millis(10);

impl Watches {
    /// Resolves when a watch has fired, and removes all that have. Returns the records that have changed.
    async fn fired(&mut self) -> Vec<String> {
        std::future::poll_fn(|cx| {
            let mut any = Poll::Pending;
            for watch in [&mut self.members, &mut self.config, &mut self.source, &mut self.owned] {
                if watch.as_mut().is_some_and(|watch| watch.poll_unpin(cx).is_ready()) {
                    *watch = None;
                    any = Poll::Ready(());
                }
            }
            let mut records = Vec::new();
            while let Poll::Ready(Some(id)) = self.records.poll_next_unpin(cx) {
                self.watched.remove(&id);
                records.push(id);
            }
            if records.is_empty() { any.map(|()| records) } else { Poll::Ready(records) }
        })
        .await
    }
}

impl Term<'_> {
    /// Lists the records of all members, which only leaders create and delete.
    pub(super) async fn list_records(&mut self) -> Result<(), End> {
        let answer = self.session.list_children(&self.leader.registrar.paths.assignments).await;
        let (names, _) = self.listed(answer).await?;
        self.view.unread = names.into_iter().collect();
        if self.view.unread.is_empty() {
            // The members of a new cluster start together. Otherwise the first one would get everything at first.
            self.debounce.settle();
        }
        Ok(())
    }

    /// Reads what has changed.
    pub(super) async fn look(&mut self) -> Result<(), End> {
        // This includes watches that have fired since the last wait.
        if let Some(changed) = self.watches.fired().now_or_never() {
            self.view.unread.extend(changed);
        }
        if self.watches.members.is_none() {
            self.read_members().await?;
        }
        if self.watches.config.is_none() {
            self.read_config().await?;
        }
        if self.watches.source.is_none() {
            self.read_source().await?;
        }
        self.read_records().await
    }

    /// Returns a listing. If the directory was deleted by hand, creates it and ends the term.
    async fn listed<T>(&self, answer: Result<T, engine::Error>) -> Result<T, End> {
        match answer {
            Err(engine::Error::NoNode) => {
                self.leader.registrar.directories(&self.session).await.map_err(End::Failed)?;
                Err(End::Superseded)
            }
            answer => answer.map_err(End::Failed),
        }
    }

    async fn read_members(&mut self) -> Result<(), End> {
        let paths = &self.leader.registrar.paths;
        let answer = self.session.watch_children(&paths.members).await;
        let (names, _, watch) = self.listed(answer).await?;
        self.watches.members = Some(watch);
        let listed: BTreeSet<(&str, &str)> = names.iter().filter_map(|name| read_member(name)).collect();
        let mut changed = false;
        for (id, all) in &mut self.view.present {
            let before = all.len();
            all.retain(|registration, _| listed.contains(&(id.as_str(), registration.as_str())));
            if all.len() != before {
                changed = true;
                // A member that leaves deletes its record.
                self.view.unread.insert(id.clone());
            }
        }
        self.view.present.retain(|_, all| !all.is_empty());
        let mut new: Vec<(String, String)> = Vec::new();
        for (id, registration) in listed {
            if !self.view.present.get(id).is_some_and(|all| all.contains_key(registration)) {
                new.push((id.to_owned(), registration.to_owned()));
            }
        }
        let session = &self.session;
        let read = |(id, registration): (String, String)| {
            let path = paths.member(&id, &registration);
            async move {
                match session.get_data(&path).await {
                    Ok((data, stat)) => Ok(Some((id, registration, data, stat))),
                    Err(engine::Error::NoNode) => Ok(None),
                    Err(error) => Err(End::Failed(error)),
                }
            }
        };
        let reads: Vec<_> = futures::stream::iter(new.into_iter().map(read)).buffered(AT_ONCE).try_collect().await?;
        for (id, registration, data, stat) in reads.into_iter().flatten() {
            changed = true;
            self.add_present(id, registration, &data, &stat);
        }
        if changed {
            self.debounce.disturb(Instant::now());
        }
        Ok(())
    }

    fn add_present(&mut self, id: String, registration: String, data: &[u8], stat: &Stat) {
        let presence = Presence::parse(data);
        if let Err(why) = &presence {
            self.leader.events.report(Event::MemberIgnored { member: id.clone(), why: why.clone() });
        }
        let present = Present { created: stat.czxid, has_record: stat.version > 0, presence };
        self.view.present.entry(id).or_default().insert(registration, present);
    }

    async fn read_config(&mut self) -> Result<(), End> {
        let path = &self.leader.registrar.paths.config;
        let answer = self.session.watch_data(path).await;
        let (data, _, watch) = self.listed(answer).await?;
        self.watches.config = Some(watch);
        match Config::parse(&data) {
            Ok(config) => {
                let before = self.config.replace(config.clone());
                // The members were read before, so those that are absent are known.
                self.is_rebalance_due |= before.as_ref().is_some_and(|before| before.rebalances != config.rebalances);
                if before.is_some_and(|before| before != config) {
                    // What an operator does is not delayed.
                    self.debounce.skip();
                }
            }
            Err(why) => {
                // Without any that was valid, nothing is decided.
                self.leader.events.report(Event::ConfigInvalid { why: format!("{path}: {why}") });
            }
        }
        Ok(())
    }

    async fn read_source(&mut self) -> Result<(), End> {
        let Source::Node(path) = &self.leader.options.source else { return Ok(()) };
        let core = &self.leader.registrar.core;
        let (session, full) = (&self.session, core.full_path(path));
        let set = loop {
            match session.watch_data(&full).await {
                Ok((data, _, watch)) => {
                    self.watches.source = Some(watch);
                    break partitions::parse(&data, core.config.max_request_bytes);
                }
                Err(engine::Error::NoNode) => {}
                Err(error) => return Err(End::Failed(error)),
            }
            let (found, watch) = session.watch_exists(&full).await.map_err(End::Failed)?;
            // Otherwise it was created between the two reads.
            if found.is_none() {
                self.watches.source = Some(watch);
                break Err("it does not exist".to_owned());
            }
        };
        match set {
            Ok(set) => {
                if self.set.as_ref() != Some(&set) {
                    if self.set.replace(set).is_some() {
                        self.debounce.skip();
                    }
                    if let Some(set) = &self.set {
                        self.view.forget_all_but(set);
                    }
                }
            }
            Err(why) => self.leader.events.report(Event::PartitionsInvalid { why: format!("{path}: {why}") }),
        }
        Ok(())
    }

    /// Reads the records that may have changed, and watches those of the members that are present.
    async fn read_records(&mut self) -> Result<(), End> {
        let watched = &self.watches.watched;
        let unwatched =
            self.view.standings().filter(|(id, _, standing)| *standing == Standing::Followed && !watched.contains(*id));
        let due: BTreeSet<String> =
            unwatched.map(|(id, ..)| id.clone()).chain(self.view.unread.iter().cloned()).collect();
        let (session, paths) = (&self.session, &self.leader.registrar.paths);
        let read = |id: String| {
            let is_watched = watched.contains(&id);
            async move {
                let path = paths.assignment(&id);
                let read = if is_watched {
                    session.get_data(&path).await.map(|(data, stat)| (data, stat, None))
                } else {
                    session.watch_data(&path).await.map(|(data, stat, watch)| (data, stat, Some(watch)))
                };
                match read {
                    Ok(read) => Ok((id, Some(read))),
                    Err(engine::Error::NoNode) => Ok((id, None)),
                    Err(error) => Err(End::Failed(error)),
                }
            }
        };
        let reads: BTreeMap<_, _> =
            futures::stream::iter(due.into_iter().map(read)).buffered(AT_ONCE).try_collect().await?;
        for (id, read) in reads {
            match read {
                Some((data, stat, watch)) => self.keep_record(&id, &data, &stat, watch),
                None => self.lose_record(&id),
            }
        }
        Ok(())
    }

    /// Notes that a record is gone. What was reserved by it is to be assigned.
    fn lose_record(&mut self, id: &str) {
        if self.view.lose(id) {
            self.debounce.disturb(Instant::now());
        }
    }

    fn keep_record(&mut self, id: &str, data: &[u8], stat: &Stat, watch: Option<Watch>) {
        if let Some(watch) = watch {
            self.watches.watched.insert(id.to_owned());
            self.watches.records.push(RecordWatch { id: id.to_owned(), watch });
        }
        // What is no record lists nothing, and is written like any other. The nodes show what is held.
        let assignment = Assignment::parse(data).unwrap_or_else(|why| {
            self.leader.events.report(Event::MemberIgnored { member: id.to_owned(), why });
            self.lose_record(id);
            Assignment::default()
        });
        let is_known = self.view.records.get(id).is_some_and(|record| record.version == stat.version);
        if is_known && self.view.records.get(id).is_some_and(|record| record.assignment == assignment) {
            self.view.unread.remove(id);
            return;
        }
        let is_other = |record: &Record| record.assignment.member != assignment.member;
        if self.view.records.get(id).is_some_and(is_other) {
            // It was overwritten by hand: what it listed may still be held.
            self.lose_record(id);
        }
        let before = self.view.records.get(id).is_some_and(|record| record.assignment.leaving);
        if assignment.leaving && !before {
            self.debounce.disturb(Instant::now());
        }
        self.view.read(id, assignment, stat.version, Instant::now());
        if let Some(record) = self.view.records.get_mut(id) {
            record.modified = stat.mtime;
        }
    }

    /// Lists the partitions that are held, if the leader must know who holds what no followed record lists. All records
    /// must have been read before, and it must be known which absent members are given up.
    pub(super) async fn read_owned(&mut self) -> Result<(), End> {
        let Some(set) = &self.set else { return Ok(()) };
        if self.watches.owned.is_none() {
            self.view.owned = None;
        }
        if self.view.owned.is_some() || !self.view.needs_proof(set) {
            return Ok(());
        }
        let answer = self.session.watch_children(&self.leader.registrar.paths.owned).await;
        let (names, _, watch) = self.listed(answer).await?;
        self.watches.owned = Some(watch);
        let owned: BTreeSet<Arc<str>> =
            names.iter().filter_map(|name| read_owned(name)).map(|(partition, _)| partition.into()).collect();
        if let Some(set) = &self.set {
            self.view.list_owned(owned, set);
        }
        Ok(())
    }

    /// Waits until something has changed or is due.
    pub(super) async fn wait(&mut self, now: Instant) {
        // Without a set and without settings, nothing is decided.
        let decision = self.debounce.due().filter(|_| self.set.is_some() && self.config.is_some());
        let due = decision.into_iter().chain(self.next_expiry()).chain(self.next_report(now)).min();
        tokio::select! {
            biased;
            changed = self.watches.fired() => {
                self.view.unread.extend(changed);
                tokio::time::sleep(COLLECT).await;
            }
            () = sleep_until_opt(due) => {}
        }
    }
}
