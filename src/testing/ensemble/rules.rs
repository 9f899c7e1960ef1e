//! Decides which requests the leader accepts. It checks in the order of the server's `PrepRequestProcessor`.
//!
//! The checks see the tree as it will be once everything proposed is committed: outstanding changes come first.

use std::sync::Arc;
use std::time::Duration;

use super::Zxid;
use super::check;
use super::identity::Identity;
use super::leader::{Facts, Leader, Outstanding};
use super::tree::{CONTAINER, Node, owner_for_ttl, session_of};
use super::txn::Change;
use crate::engine::Op;
use crate::protocol::ErrorCode;
use crate::util::path;
use crate::util::znode::{Acl, CreateMode, Permissions};

/// Outstanding changes as they were before a request, to be restored if it fails.
type Undo = Vec<(Arc<str>, Option<Outstanding>)>;

impl From<&Node> for Facts {
    fn from(node: &Node) -> Self {
        Facts {
            version: node.version,
            acl_version: node.acl_version,
            creations: node.creations,
            children: node.children.len(),
            owner: node.owner,
            acls: Arc::clone(&node.acls),
        }
    }
}

/// Who requests a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Author<'a> {
    pub(crate) session: i64,
    pub(crate) identity: &'a Identity,
}

impl Leader {
    /// Returns the changes of a request, or the first step that fails, in which case nothing is changed.
    pub(crate) fn prepare(
        &mut self,
        ops: &[Op],
        by: Author<'_>,
        zxid: Zxid,
    ) -> Result<Vec<Change>, (usize, ErrorCode)> {
        let mut undo = Undo::new();
        let mut changes = Vec::with_capacity(ops.len());
        for (index, op) in ops.iter().enumerate() {
            match self.step(op, by, zxid, &mut undo) {
                Ok(change) => changes.push(change),
                Err(error) => {
                    self.roll_back(undo);
                    return Err((index, error));
                }
            }
        }
        Ok(changes)
    }

    fn roll_back(&mut self, undo: Undo) {
        for (path, before) in undo.into_iter().rev() {
            match before {
                Some(before) => self.outstanding.insert(path, before),
                None => self.outstanding.remove(&path),
            };
        }
    }

    fn step(&mut self, op: &Op, by: Author<'_>, zxid: Zxid, undo: &mut Undo) -> Result<Change, ErrorCode> {
        match op {
            Op::Check { path, version } => {
                check::path(path)?;
                let node = self.facts(path)?;
                self.permit(by.identity, path, &node.acls, Permissions::READ)?;
                at_version(*version, node.version)?;
                Ok(Change::Check)
            }
            Op::Create { path, data, mode, acls } => self.prepare_create(path, data, *mode, acls, (by, zxid), undo),
            Op::SetData { path, data, version } => {
                check::path(path)?;
                let mut node = self.facts(path)?;
                self.permit(by.identity, path, &node.acls, Permissions::WRITE)?;
                at_version(*version, node.version)?;
                node.version = node.version.wrapping_add(1);
                let (path, version) = (Arc::from(path.as_str()), node.version);
                self.record(&path, Some(node), zxid, undo);
                let data = Arc::from(data.as_slice());
                Ok(Change::SetData { path, data, version })
            }
            Op::Delete { path, version } => self.prepare_delete(path, *version, (by, zxid), undo),
        }
    }

    fn prepare_create(
        &mut self,
        name: &str,
        data: &[u8],
        mode: CreateMode,
        acls: &[Acl],
        (by, zxid): (Author<'_>, Zxid),
        undo: &mut Undo,
    ) -> Result<Change, ErrorCode> {
        if let CreateMode::PersistentTtl(ttl) = mode {
            self.check_ttl(ttl)?;
        }
        let acls = check::acls(&by.identity.resolve(acls))?;
        let dir = path::split(name).0;
        let mut parent = self.facts(dir)?;
        self.permit(by.identity, dir, &parent.acls, Permissions::CREATE)?;
        let path: Arc<str> =
            if mode.is_sequential() { Arc::from(format!("{name}{:010}", parent.creations)) } else { Arc::from(name) };
        if self.facts(&path).is_ok() {
            return Err(ErrorCode::NodeExists);
        }
        check::new_path(&path)?;
        if session_of(parent.owner) != 0 {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let owner = match mode {
            CreateMode::Container => CONTAINER,
            CreateMode::PersistentTtl(ttl) => owner_for_ttl(ttl),
            mode if mode.is_ephemeral() => by.session,
            _ => 0,
        };
        let node = Facts { version: 0, acl_version: 0, creations: 0, children: 0, owner, acls };
        let acls = Arc::clone(&node.acls);
        parent.creations = parent.creations.wrapping_add(1);
        parent.children += 1;
        let parent_creations = parent.creations;
        self.record(&Arc::from(dir), Some(parent), zxid, undo);
        self.record(&path, Some(node), zxid, undo);
        Ok(Change::Create { path, data: Arc::from(data), acls, owner, parent_creations })
    }

    fn check_ttl(&self, ttl: Duration) -> Result<(), ErrorCode> {
        if !self.extended_types {
            return Err(ErrorCode::Unimplemented);
        }
        if ttl.is_zero() { Err(ErrorCode::BadArguments) } else { Ok(()) }
    }

    fn prepare_delete(
        &mut self,
        name: &str,
        version: Option<i32>,
        (by, zxid): (Author<'_>, Zxid),
        undo: &mut Undo,
    ) -> Result<Change, ErrorCode> {
        // A server checks no more of the path than this.
        if name == "/" || !name.contains('/') || name.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let dir = path::split(name).0;
        let mut parent = self.facts(dir)?;
        self.permit(by.identity, dir, &parent.acls, Permissions::DELETE)?;
        let node = self.facts(name)?;
        at_version(version, node.version)?;
        if node.children > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        let path: Arc<str> = Arc::from(name);
        parent.children -= 1;
        self.record(&Arc::from(dir), Some(parent), zxid, undo);
        self.record(&path, None, zxid, undo);
        Ok(Change::Delete { path })
    }

    /// Returns the change of a request to write an ACL, which cannot be a step of a transaction.
    pub(crate) fn prepare_acl(
        &mut self,
        path: &str,
        acls: &[Acl],
        version: Option<i32>,
        (by, zxid): (Author<'_>, Zxid),
    ) -> Result<Change, ErrorCode> {
        check::path(path)?;
        let mut node = self.facts(path)?;
        self.permit(by.identity, path, &node.acls, Permissions::ADMIN)?;
        let acls = check::acls(&by.identity.resolve(acls))?;
        at_version(version, node.acl_version)?;
        node.acl_version = node.acl_version.wrapping_add(1);
        node.acls = Arc::clone(&acls);
        let (path, version): (Arc<str>, i32) = (Arc::from(path), node.acl_version);
        self.record(&path, Some(node), zxid, &mut Undo::new());
        Ok(Change::SetAcl { path, acls, version })
    }

    /// Records that `path` will be gone, and that its parent will have one child fewer.
    pub(crate) fn forget(&mut self, path: &Arc<str>, zxid: Zxid) {
        let mut kept = Undo::new();
        let dir = path::split(path).0;
        if let Ok(mut parent) = self.facts(dir) {
            parent.children = parent.children.saturating_sub(1);
            self.record(&Arc::from(dir), Some(parent), zxid, &mut kept);
        }
        self.record(path, None, zxid, &mut kept);
    }

    /// Returns the state of a node once all proposals are committed.
    pub(crate) fn facts(&self, path: &str) -> Result<Facts, ErrorCode> {
        match self.outstanding.get(path) {
            Some(change) => change.facts.clone(),
            None => self.tree.get(path).map(Facts::from),
        }
        .ok_or(ErrorCode::NoNode)
    }

    fn record(&mut self, path: &Arc<str>, facts: Option<Facts>, zxid: Zxid, undo: &mut Undo) {
        let before = self.outstanding.insert(Arc::clone(path), Outstanding { zxid, facts });
        undo.push((Arc::clone(path), before));
    }

    /// Checks that `who` has the `wanted` permissions on a node with this ACL.
    pub(crate) fn permit(
        &self,
        who: &Identity,
        path: &str,
        acls: &[Acl],
        wanted: Permissions,
    ) -> Result<(), ErrorCode> {
        let is_denied = self.denied.contains(path) && !matches!(who, Identity::Hand);
        if is_denied || !who.may(acls, wanted) { Err(ErrorCode::NoAuth) } else { Ok(()) }
    }
}

/// On the wire, -1 stands for any version.
fn at_version(wanted: Option<i32>, version: i32) -> Result<(), ErrorCode> {
    match wanted {
        Some(wanted) if wanted != -1 && wanted != version => Err(ErrorCode::BadVersion),
        _ => Ok(()),
    }
}
