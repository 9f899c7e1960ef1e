//! The line of participants on the servers.

use zookeeper_recipes::testing::TestingServer;

/// Where the participants wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// The directory.
    pub(crate) path: &'static str,
    /// The suffixes of its node names, before the number.
    pub(crate) bases: &'static [&'static str],
    /// The suffix of readers, which hold together.
    pub(crate) readers: Option<&'static str>,
    /// Whether each participant has an id of its own, which is its node's data.
    pub(crate) has_ids: bool,
    /// Whether each holder watches its node.
    pub(crate) watches_own: bool,
}

/// A node in the line.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: String,
    /// The fencing token of its holder.
    pub(crate) czxid: i64,
    pub(crate) session: i64,
    /// Its data, which identifies the creator.
    pub(crate) data: Vec<u8>,
}

impl Place {
    /// Returns whether the node still exists.
    pub(crate) fn stands(&self, server: &TestingServer) -> bool {
        is_there(server, &self.path, self.czxid)
    }

    /// Returns whether its session is connected. On Keeper a session cannot reconnect, but its nodes last for a while.
    pub(crate) fn is_connected(&self, server: &TestingServer) -> bool {
        server.sessions().iter().any(|session| session.id == self.session && session.connected)
    }
}

/// Returns whether there is a node at `path` that this transaction created.
pub(crate) fn is_there(server: &TestingServer, path: &str, czxid: i64) -> bool {
    server.stat(path).is_some_and(|stat| stat.czxid == czxid)
}

impl Line {
    /// Returns whether this is the place of a reader.
    pub(crate) fn is_reader(&self, place: &Place) -> bool {
        self.readers.is_some_and(|base| place.path.contains(base))
    }

    /// Returns all places, in order of arrival.
    pub(crate) fn places(&self, server: &TestingServer) -> Vec<Place> {
        let places = server.children(self.path).into_iter().filter_map(|name| {
            let path = format!("{}/{name}", self.path);
            self.bases.iter().any(|base| name.contains(base)).then_some(())?;
            let (stat, data) = (server.stat(&path)?, server.get(&path)?);
            Some(Place { path, czxid: stat.czxid, session: stat.ephemeral_owner, data })
        });
        let mut places: Vec<Place> = places.collect();
        places.sort_by_key(|place| place.czxid);
        places
    }

    /// Returns the nodes of a participant that has two of them in one session.
    pub(crate) fn double(&self, server: &TestingServer) -> Option<(Place, Place)> {
        if !self.has_ids {
            return None;
        }
        let mut places = self.places(server);
        places.sort_by(|one, other| (one.session, &one.data).cmp(&(other.session, &other.data)));
        let twice = places.windows(2).find(|two| two[0].session == two[1].session && two[0].data == two[1].data)?;
        Some((twice[0].clone(), twice[1].clone()))
    }
}
