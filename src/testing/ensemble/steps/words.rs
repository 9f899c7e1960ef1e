//! The answers to four-letter words, in the format of ZooKeeper 3.9. What is not counted here, such as the latency of
//! requests, is left out.

use std::fmt::Write as _;

use crate::testing::ensemble::ConnId;
use crate::testing::ensemble::connection::Conn;
use crate::testing::ensemble::replica::Replica;
use crate::testing::ensemble::world::World;

const VERSION: &str = "3.9.0-in-memory";
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

impl World {
    /// Returns the answer to a four-letter word; empty if its connection is gone.
    pub(crate) fn word(&self, id: ConnId, word: [u8; 4]) -> String {
        let number = self.conns.get(&id).map(|conn| conn.replica);
        let Some((number, replica)) = number.and_then(|number| Some((number, self.replicas.get(number)?))) else {
            return String::new();
        };
        let read_only = self.is_read_only(number);
        match &word {
            b"ruok" => "imok".to_owned(),
            b"isro" if read_only => "ro".to_owned(),
            b"isro" => if replica.is_serving() { "rw" } else { "null" }.to_owned(),
            b"envi" => format!("Environment:\nzookeeper.version={VERSION}\n"),
            b"conf" => self.conf(number),
            b"srvr" | b"stat" | b"mntr" | b"cons" | b"wchs" if !replica.is_serving() && !read_only => {
                NOT_SERVING.to_owned()
            }
            b"srvr" => format!("Zookeeper version: {VERSION}\n{}", self.numbers(number, replica)),
            b"stat" => {
                let clients = self.clients(number, short);
                format!("Zookeeper version: {VERSION}\nClients:\n{clients}\n{}", self.numbers(number, replica))
            }
            b"cons" => self.clients(number, |conn| format!("{}{}", short(conn), self.session_of(conn))) + "\n",
            b"mntr" => self.mntr(number, replica),
            b"wchs" => wchs(replica),
            word => {
                let word = String::from_utf8_lossy(word);
                format!("{word} is not executed because it is not in the whitelist.\n")
            }
        }
    }

    /// Returns the mode to report. The leader is not one of the servers here; the first one that serves claims to lead.
    fn mode(&self, number: usize) -> &'static str {
        let first = self.replicas.iter().position(Replica::is_serving);
        match self.replicas.len() {
            1 => "standalone",
            _ if self.is_read_only(number) => "read-only",
            _ if first == Some(number) => "leader",
            _ => "follower",
        }
    }

    fn conns_of(&self, number: usize) -> impl Iterator<Item = &Conn> {
        self.conns.values().filter(move |conn| conn.replica == number && conn.open)
    }

    fn conf(&self, number: usize) -> String {
        let grants = self.grants.get(number);
        let (min, max) = grants.map_or((0, 0), |grants| (*grants.start(), *grants.end()));
        let tick = self.options.tick;
        format!(
            "tickTime={tick}\nmaxClientCnxns=0\nminSessionTimeout={min}\nmaxSessionTimeout={max}\nserverId={number}\n"
        )
    }

    /// Returns the last part of the answers to `srvr` and `stat`.
    fn numbers(&self, number: usize, replica: &Replica) -> String {
        let sum = |count: fn(&Conn) -> u64| self.conns_of(number).map(count).sum::<u64>();
        format!(
            "Received: {}\nSent: {}\nConnections: {}\nOutstanding: {}\nZxid: {:#x}\nMode: {}\nNode count: {}\n",
            sum(|conn| conn.received),
            sum(|conn| conn.sent),
            self.conns_of(number).count(),
            sum(|conn| conn.slots.len() as u64),
            replica.applied,
            self.mode(number),
            replica.tree.paths().count(),
        )
    }

    /// Returns a line for each connection.
    fn clients(&self, number: usize, describe: impl Fn(&Conn) -> String) -> String {
        self.conns_of(number).fold(String::new(), |mut lines, conn| {
            let _ = writeln!(lines, " /{}[{}]({})", conn.peer, u8::from(conn.session != 0), describe(conn));
            lines
        })
    }

    /// Returns what `cons` reports about the session of a connection.
    fn session_of(&self, conn: &Conn) -> String {
        match conn.session {
            0 => String::new(),
            session => format!(",sid={session:#x},est={},to={}", self.time_of_day(conn.since), conn.timeout),
        }
    }

    fn mntr(&self, number: usize, replica: &Replica) -> String {
        let sum = |count: fn(&Conn) -> u64| self.conns_of(number).map(count).sum::<u64>();
        let rows: [(&str, String); 10] = [
            ("version", VERSION.to_owned()),
            ("server_state", self.mode(number).to_owned()),
            ("packets_received", sum(|conn| conn.received).to_string()),
            ("packets_sent", sum(|conn| conn.sent).to_string()),
            ("num_alive_connections", self.conns_of(number).count().to_string()),
            ("outstanding_requests", sum(|conn| conn.slots.len() as u64).to_string()),
            ("znode_count", replica.tree.paths().count().to_string()),
            ("watch_count", replica.watches.count(|_| true).to_string()),
            ("ephemerals_count", replica.tree.count_ephemerals().to_string()),
            ("global_sessions", self.leader.sessions.len().to_string()),
        ];
        rows.iter().fold(String::new(), |mut lines, (name, value)| {
            let _ = writeln!(lines, "zk_{name}\t{value}");
            lines
        })
    }
}

fn short(conn: &Conn) -> String {
    format!("queued={},recved={},sent={}", conn.slots.len(), conn.received, conn.sent)
}

fn wchs(replica: &Replica) -> String {
    let (conns, paths) = replica.watches.sizes();
    format!("{conns} connections watching {paths} paths\nTotal watches:{}\n", replica.watches.count(|_| true))
}
