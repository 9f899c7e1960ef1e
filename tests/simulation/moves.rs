//! Servers that move: the lists of the clients change, so their sessions leave servers that still serve.

use fastrand::Rng;
use zookeeper_recipes::ServerList;
use zookeeper_recipes::testing::TestingServer;

/// The lists of all clients. What happens to them is drawn separately, so that nothing else in a seed depends on it.
pub(crate) struct Moves {
    random: Rng,
    /// By the number of the client. One that could not connect leaves its list to the next.
    lists: Vec<ServerList>,
}

impl Moves {
    /// Returns the lists of a seed, if its servers move: in a quarter of those with several servers.
    pub(crate) fn of(seed: u64, servers: usize) -> Option<Self> {
        let mut random = Rng::with_seed(seed.rotate_left(17) ^ 0x6d6f_7665);
        let moves = servers > 1 && random.u8(..4) == 0;
        moves.then(|| Moves { random, lists: Vec::new() })
    }

    /// Returns the list of a client, which begins with all servers.
    pub(crate) fn list(&mut self, client: usize, server: &TestingServer) -> ServerList {
        let list = ServerList::new(&names(server, |_| true)).expect("names of servers");
        self.lists.truncate(client);
        self.lists.push(list.clone());
        list
    }

    /// Replaces the list of a client or of all, in half of the calls. Returns what was done.
    pub(crate) fn act(&mut self, server: &TestingServer) -> Option<String> {
        if self.lists.is_empty() || self.random.bool() {
            return None;
        }
        let kept = self.random.u8(1..1 << server.servers().min(7));
        let all = self.random.u8(..4) == 0;
        let who = self.random.usize(..self.lists.len());
        let servers = names(server, |number| kept & (1 << number) != 0);
        for (_, list) in self.lists.iter().enumerate().filter(|(client, _)| all || *client == who) {
            list.replace(&servers).expect("names of servers");
        }
        let whose = if all { "all clients".to_owned() } else { format!("client {who}") };
        Some(format!("the servers of {whose} are {servers}"))
    }

    /// Gives all clients all servers.
    pub(crate) fn heal(&self, server: &TestingServer) {
        for list in &self.lists {
            list.replace(&names(server, |_| true)).expect("names of servers");
        }
    }
}

fn names(server: &TestingServer, has: impl Fn(usize) -> bool) -> String {
    let names: Vec<_> = (0..server.servers()).filter(|number| has(*number)).map(|n| server.server_name(n)).collect();
    names.join(",")
}
