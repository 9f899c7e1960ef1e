//! Random steps.

use super::compare::Seen;
use super::compared::ComparedSession;
use crate::engine::{Op, Watch};
use crate::util::znode::{Acl, CreateMode, Permissions};

#[derive(Debug)]
pub(super) enum Read {
    Exists,
    Data,
    Children,
    /// Never leaves a watch.
    Acl,
}

#[derive(Debug)]
pub(super) enum Step {
    Write {
        session: usize,
        op: Op,
    },
    Multi {
        session: usize,
        ops: Vec<Op>,
    },
    Read {
        session: usize,
        read: Read,
        path: String,
        watch: bool,
    },
    Sync {
        session: usize,
        path: String,
    },
    /// Drops a watch before its event.
    Unwatch {
        watch: usize,
    },
    /// Closes the session, and opens another one.
    Reopen {
        session: usize,
    },
}

impl Step {
    /// Returns whether events or the removal of a watch may still be under way after the answer.
    pub(super) fn unsettles(&self) -> bool {
        matches!(self, Step::Write { .. } | Step::Multi { .. } | Step::Reopen { .. } | Step::Unwatch { .. })
    }

    pub(super) async fn take(&self, sessions: &[Box<dyn ComparedSession>]) -> (Seen, Option<Watch>) {
        let seen = match self {
            Step::Write { session, op } => write(&*sessions[*session], op).await,
            Step::Multi { session, ops } => Seen::Multi(sessions[*session].multi(ops.clone()).await),
            Step::Sync { session, path } => Seen::Done(sessions[*session].sync(path).await),
            Step::Read { session, read, path, watch } => return read.take(&*sessions[*session], path, *watch).await,
            Step::Unwatch { .. } | Step::Reopen { .. } => Seen::Nothing,
        };
        (seen, None)
    }
}

async fn write(session: &dyn ComparedSession, op: &Op) -> Seen {
    match op {
        Op::Check { .. } => Seen::Multi(session.multi(vec![op.clone()]).await),
        Op::Create { path, data, mode, acls } => Seen::Created(session.create(path, data, *mode, acls).await),
        Op::SetData { path, data, version } => Seen::Changed(session.set_data(path, data, *version).await),
        Op::Delete { path, version } => Seen::Done(session.delete(path, *version).await),
    }
}

impl Read {
    async fn take(&self, session: &dyn ComparedSession, path: &str, watch: bool) -> (Seen, Option<Watch>) {
        let sorted = |(mut names, stat): (Vec<String>, _)| {
            names.sort();
            (names, stat)
        };
        match (self, watch) {
            (Read::Exists, false) => (Seen::Found(session.exists(path).await), None),
            (Read::Data, false) => (Seen::Data(session.get_data(path).await), None),
            (Read::Children, false) => (Seen::Children(session.list_children(path).await.map(sorted)), None),
            (Read::Acl, _) => (Seen::Acl(session.get_acl(path).await), None),
            (Read::Exists, true) => match session.watch_exists(path).await {
                Ok((found, watch)) => (Seen::Found(Ok(found)), Some(watch)),
                Err(error) => (Seen::Found(Err(error)), None),
            },
            (Read::Data, true) => match session.watch_data(path).await {
                Ok((data, stat, watch)) => (Seen::Data(Ok((data, stat))), Some(watch)),
                Err(error) => (Seen::Data(Err(error)), None),
            },
            (Read::Children, true) => match session.watch_children(path).await {
                Ok((names, stat, watch)) => (Seen::Children(Ok(sorted((names, stat)))), Some(watch)),
                Err(error) => (Seen::Children(Err(error)), None),
            },
        }
    }
}

/// Generates steps from a seed, on so few paths that steps often affect each other.
pub(super) struct Generator {
    state: u64,
    root: String,
    sessions: usize,
}

impl Generator {
    pub(super) fn new(seed: u64, root: &str, sessions: usize) -> Self {
        Generator { state: seed ^ 0x5851_f42d_4c95_7f2d, root: root.to_owned(), sessions }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn path(&mut self) -> String {
        let depth = self.one_of(&[1, 1, 1, 2, 2, 3]);
        let mut path = self.root.clone();
        for _ in 0..depth {
            path.push('/');
            path.push_str(self.one_of(&["a", "b", "c"]));
        }
        if self.below(12) == 0 {
            path = format!("{path}{:010}", self.below(6));
        }
        if self.below(60) == 0 { self.root.clone() } else { path }
    }

    fn version(&mut self) -> Option<i32> {
        self.one_of(&[None, None, None, Some(-1), Some(0), Some(0), Some(1), Some(2)])
    }

    fn data(&mut self) -> Vec<u8> {
        vec![b'x'; self.below(40)]
    }

    fn acls(&mut self) -> Vec<Acl> {
        let some = Permissions::READ | Permissions::CREATE | Permissions::DELETE;
        match self.below(40) {
            0 => Vec::new(),
            1 => vec![Acl::creator_all()],
            2 => vec![Acl::new(some, "world", "anyone")],
            3 => vec![Acl::new(Permissions::WRITE | Permissions::DELETE, "world", "anyone")],
            4 => vec![Acl::new(Permissions::ALL, "digest", "user:hash")],
            _ => vec![Acl::anyone_all()],
        }
    }

    fn op(&mut self) -> Op {
        let path = self.path();
        match self.below(12) {
            0..=5 => Op::Create {
                data: self.data(),
                mode: self.one_of(&[
                    CreateMode::Persistent,
                    CreateMode::Persistent,
                    CreateMode::PersistentSequential,
                    CreateMode::Ephemeral,
                    CreateMode::EphemeralSequential,
                    CreateMode::Container,
                ]),
                acls: self.acls(),
                path,
            },
            6..=8 => Op::Delete { path, version: self.version() },
            9..=10 => Op::SetData { path, data: self.data(), version: self.version() },
            _ => Op::Check { path, version: self.version() },
        }
    }

    /// Returns the next step, given the number of armed watches.
    pub(super) fn step(&mut self, watches: usize) -> Step {
        let session = self.below(self.sessions);
        match self.below(100) {
            0..=41 => Step::Write { session, op: self.op() },
            42..=53 => {
                let steps = 1 + self.below(5);
                let ops = (0..steps).map(|_| self.op()).collect();
                Step::Multi { session, ops }
            }
            54..=55 => Step::Sync { session, path: self.path() },
            56..=59 if watches > 0 => Step::Unwatch { watch: self.below(watches) },
            60 => Step::Reopen { session },
            _ => {
                let read = match self.below(10) {
                    0..=2 => Read::Exists,
                    3..=5 => Read::Data,
                    6 => Read::Acl,
                    _ => Read::Children,
                };
                Step::Read { session, read, path: self.path(), watch: self.below(2) == 0 }
            }
        }
    }
}
