//! The items of queues: who put each, who claimed it, and what became of it.

use std::collections::HashMap;

use super::value::{Delivery, End, Item, ItemEnd, Moment};

/// How many deliveries of an item are kept.
const MOST_DELIVERIES: usize = 1000;

/// The items and claims that exist.
#[derive(Debug, Default)]
pub(super) struct Items {
    items: HashMap<String, Item>,
    /// The items of the claims, and their owners, by the paths of the claims.
    claims: HashMap<String, (String, Option<i64>)>,
    /// The items that the current transaction has deleted.
    leaving: Vec<Item>,
    /// The dead letters that it has created: their items, and their own paths.
    letters: Vec<(String, String)>,
}

impl Items {
    pub(super) fn contains(&self, path: &str) -> bool {
        self.items.contains_key(path) || self.claims.contains_key(path)
    }

    pub(super) fn put(&mut self, path: &str, put: Moment, put_by: Option<i64>, data_length: usize) {
        let item = Item {
            path: path.to_owned(),
            put,
            put_by,
            data_length,
            deliveries: Vec::new(),
            ended: None,
            end: ItemEnd::Remains,
            ended_by: None,
            letter: None,
        };
        self.items.insert(path.to_owned(), item);
    }

    pub(super) fn claim(&mut self, claim: &str, item: String, session_id: Option<i64>, claimed: Moment) {
        if let Some(item) = self.items.get_mut(&item) {
            if item.deliveries.len() == MOST_DELIVERIES {
                item.deliveries.remove(0);
            }
            item.deliveries.push(Delivery { session_id, claimed, ended: None, end: End::Remains });
        }
        self.claims.insert(claim.to_owned(), (item, session_id));
    }

    pub(super) fn letter(&mut self, item: String, letter: &str) {
        self.letters.push((item, letter.to_owned()));
    }

    /// Returns when an item was put, or an item was claimed with this claim.
    pub(super) fn since(&self, path: &str) -> Option<Moment> {
        let claimed = || {
            let (item, _) = self.claims.get(path)?;
            self.items.get(item)?.deliveries.last().map(|delivery| delivery.claimed)
        };
        self.items.get(path).map(|item| item.put).or_else(claimed)
    }

    /// Returns the owner of a claim, if it has one; `None` if the path is not that of a claim.
    pub(super) fn owner_of_claim(&self, path: &str) -> Option<Option<i64>> {
        self.claims.get(path).map(|(_, owner)| *owner)
    }

    /// Ends a claim. Returns whether it is one.
    pub(super) fn unclaim(&mut self, claim: &str, at: Moment, end: End) -> bool {
        let Some((item, _)) = self.claims.remove(claim) else { return false };
        let leaving = self.leaving.iter_mut().find(|leaving| leaving.path == item);
        let open = leaving.or(self.items.get_mut(&item)).and_then(|item| item.deliveries.last_mut());
        if let Some(delivery) = open.filter(|delivery| delivery.ended.is_none()) {
            (delivery.ended, delivery.end) = (Some(at), end);
        }
        true
    }

    /// Deletes an item. How it ended is known once the whole transaction was applied.
    pub(super) fn delete(&mut self, path: &str, at: Moment, by: Option<i64>) {
        let Some(mut item) = self.items.remove(path) else { return };
        (item.ended, item.ended_by) = (Some(at), by);
        let claimed_by = item.deliveries.last().filter(|delivery| delivery.ended.is_none());
        item.end = match claimed_by {
            None => ItemEnd::Taken,
            Some(delivery) if delivery.session_id == by => ItemEnd::Done,
            Some(_) => ItemEnd::Deleted,
        };
        self.leaving.push(item);
    }

    /// Returns the items that the transaction has ended.
    pub(super) fn settle(&mut self, at: Moment) -> Vec<Item> {
        let letters = std::mem::take(&mut self.letters);
        let mut leaving = std::mem::take(&mut self.leaving);
        for item in &mut leaving {
            if let Some((_, letter)) = letters.iter().find(|(of, _)| *of == item.path) {
                (item.end, item.letter) = (ItemEnd::DeadLettered, Some(letter.clone()));
            }
            // Curator deletes the item first, and its claim in a transaction of its own.
            let is_done = item.end == ItemEnd::Done;
            if let Some(open) = item.deliveries.last_mut().filter(|delivery| delivery.ended.is_none()) {
                (open.ended, open.end) = (Some(at), if is_done { End::Released } else { End::Deleted });
            }
        }
        leaving
    }

    /// Returns the paths of all items and claims, with the transactions that made them.
    pub(super) fn existing(&self) -> Vec<(String, i64)> {
        let items = self.items.iter().map(|(path, item)| (path.clone(), item.put.zxid));
        let claims = self.claims.iter().map(|(claim, (item, _))| {
            let delivery = self.items.get(item).and_then(|item| item.deliveries.last());
            (claim.clone(), delivery.map_or(0, |delivery| delivery.claimed.zxid))
        });
        items.chain(claims).collect()
    }

    /// Ends an item or a claim of which it is not known how it ended.
    pub(super) fn forget(&mut self, path: &str, at: Moment) -> Option<Item> {
        if self.unclaim(path, at, End::Unknown) {
            return None;
        }
        let mut item = self.items.remove(path)?;
        item.end = ItemEnd::Unknown;
        if let Some(open) = item.deliveries.last_mut().filter(|delivery| delivery.ended.is_none()) {
            open.end = End::Unknown;
        }
        Some(item)
    }

    /// Returns all items that remain.
    pub(super) fn into_items(self) -> impl Iterator<Item = Item> {
        self.items.into_values()
    }
}
