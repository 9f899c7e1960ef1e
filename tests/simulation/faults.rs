//! The faults that are independent of recipes.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::testing::{Loss, Operation, SessionInfo, Target};

use crate::world::{Ending, World};

impl World {
    /// Injects a random fault that is independent of recipes.
    pub(crate) fn fault(&mut self) {
        if let Some(moved) = self.moves.as_mut().and_then(|moves| moves.act(&self.server)) {
            return self.hit(moved);
        }
        let who = self.a_victim();
        let all = self.random.u8(..4) == 0;
        let target = if all { Target::ALL } else { Target::from(&self.clients[who]) };
        let name = if all { "all clients".to_owned() } else { format!("client {who}") };
        let lasting = self.a_while(self.timeout * 3);
        match self.random.u8(..24) {
            0..=4 => {
                let of = self.an_operation();
                let loss = if self.random.bool() { Loss::Applied } else { Loss::NotApplied };
                self.server.lose_next_reply(target, of, loss);
                self.trace.note(format_args!("the next reply to {of:?} of {name} will be lost, {loss:?}"));
            }
            5..=6 => {
                let cut = self.server.disconnect(target);
                self.figures.faults += u64::from(cut > 0);
                self.trace.note(format_args!("{name} is disconnected: {cut} connections"));
            }
            7 => {
                self.server.refuse(target.clone());
                self.server.disconnect(target);
                self.hit(format_args!("{name} is refused for {lasting:?}"));
                self.end_after(lasting, Ending::Heal);
            }
            8..=9 => {
                self.server.black_hole(target);
                self.hit(format_args!("{name} is in a black hole for {lasting:?}"));
                self.end_after(lasting, Ending::Heal);
            }
            10 => {
                let by = self.a_while(self.timeout / 2);
                self.server.delay(target, by);
                self.hit(format_args!("messages of {name} take {by:?} longer for {lasting:?}"));
                self.end_after(lasting, Ending::Heal);
            }
            11..=12 => {
                self.freeze(who);
                self.hit(format_args!("client {who} is frozen for {lasting:?}"));
                self.end_after(lasting, Ending::Thaw(who));
            }
            13..=14 if self.server.servers() > 1 => {
                let server = self.random.usize(..self.server.servers());
                let serves_for = self.a_while(self.timeout * 2);
                self.server.cut_off(server, serves_for);
                self.hit(format_args!("server {server} is cut off for {lasting:?} and serves for {serves_for:?}"));
                self.end_after(lasting, Ending::Heal);
            }
            15..=16 if self.server.servers() > 1 => self.cut_off_with_server(who),
            17..=18 => {
                self.change_grants();
                if self.random.bool() {
                    let cut = self.server.disconnect(target);
                    self.figures.faults += u64::from(cut > 0);
                    self.trace.note(format_args!("{name} is disconnected: {cut} connections"));
                }
            }
            19..=20 if self.server.servers() > 1 => self.depose_leader(who, lasting),
            21..=22 if self.random.u8(..4) == 0 => self.grant_the_least_and_lose(who),
            21..=22 => self.change_grants_and_lose(who),
            _ if !self.stopped => {
                self.server.stop();
                self.stopped = true;
                self.hit(format_args!("the servers are stopped for {lasting:?}"));
                self.end_after(lasting, Ending::Restart);
            }
            _ => {}
        }
    }

    fn session_of(&self, who: usize) -> Option<SessionInfo> {
        let session = self.clients[who].session_id();
        self.server.sessions().into_iter().find(|info| Some(info.id) == session)
    }

    /// Returns the server that a client is connected to.
    fn server_of(&self, who: usize) -> Option<usize> {
        self.session_of(who)?.server
    }

    /// Returns a time after a cut at which a client may have sent the request to resume its session, but has no answer
    /// yet. It waits until a server without a leader must have noticed, and then asks the server whether it serves.
    fn until_it_resumes(&mut self, who: usize) -> Duration {
        let timeout = self.session_of(who).map_or(self.timeout, |session| session.timeout);
        let unnoticed = Duration::from_millis(300).min(timeout / 20);
        let most = self.latency * 6;
        unnoticed + Duration::from_millis(most.mul_f64(self.random.f64()).as_millis() as u64)
    }

    /// Changes the session timeouts that one server or all of them grant, as after a change of their configuration.
    pub(crate) fn change_grants(&mut self) {
        // By default, servers grant at least two ticks.
        let (least, span) = (self.tick * 2, self.timeout.saturating_sub(self.tick * 2));
        let mut ends =
            [(); 2].map(|()| least + Duration::from_millis(span.mul_f64(self.random.f64()).as_millis() as u64));
        ends.sort();
        let [least, most] = ends;
        self.least = self.least.min(most);
        let server = self.random.usize(..self.server.servers() * 2);
        if server < self.server.servers() {
            self.server.grant_timeouts_by(server, least..=most);
            self.trace.note(format_args!("server {server} grants {least:?} to {most:?}"));
        } else {
            self.server.grant_timeouts(least..=most);
            self.trace.note(format_args!("all servers grant {least:?} to {most:?}"));
        }
    }

    /// Changes the granted timeouts, makes a client reconnect once or more often, and then isolates it for a while.
    fn change_grants_and_lose(&mut self, who: usize) {
        self.change_grants();
        let mut after = Duration::ZERO;
        for _ in 0..self.random.u8(1..=3) {
            after += self.a_while(self.tick * 2);
            self.end_after(after, Ending::Cut(who));
        }
        after += self.a_while(self.tick * 2);
        self.lose_after(who, after);
    }

    /// Lets all servers grant the shortest timeout, cuts a client, and isolates it when it may have sent the request to
    /// resume its session: the request may be carried out, but the answer comes too late.
    fn grant_the_least_and_lose(&mut self, who: usize) {
        self.least = self.least.min(self.tick * 2);
        self.server.grant_timeouts(self.tick * 2..=self.tick * 2);
        let after = self.until_it_resumes(who);
        self.end_after(Duration::ZERO, Ending::Cut(who));
        self.lose_after(who, after);
    }

    /// Isolates a client that is cut, after this time and for a while.
    fn lose_after(&mut self, who: usize, after: Duration) {
        let lasting = self.timeout.mul_f64(0.5 + self.random.f64());
        let how = self.random.u8(..3);
        let (lost, found) = match how {
            0 => (Ending::Silence(who), Ending::Heal),
            1 => (Ending::Refuse(who), Ending::Heal),
            _ => (Ending::Freeze(who), Ending::Thaw(who)),
        };
        self.hit(format_args!("client {who} is cut until {after:?} from now, and then {lost:?} for {lasting:?}"));
        self.end_after(after, lost);
        if how == 1 {
            self.end_after(after, Ending::Cut(who));
        }
        self.end_after(after + lasting, found);
    }

    /// Cuts off the leader together with a client; another leader is elected without its knowledge. By chance the
    /// client is refused by other servers, at once or after it has reconnected, perhaps to the deposed leader.
    fn depose_leader(&mut self, who: usize, lasting: Duration) {
        let Some(server) = self.server_of(who) else { return };
        // Unless all use quorum heartbeats, a deposed leader must not answer syncs for longer; see `Heartbeat`.
        let most = if self.quorum_only { self.timeout * 2 } else { self.tick.min(self.least / 4).mul_f64(1.5) };
        let serves_for = Duration::from_millis(most.mul_f64(self.random.f64()).as_millis() as u64);
        let refused = self.random.u8(..3);
        self.server.depose_leader(server, serves_for);
        self.deposed_until = self.deposed_until.max(Some(Instant::now() + serves_for));
        self.hit(format_args!("server {server} is deposed for {lasting:?} and keeps serving for {serves_for:?}"));
        if refused == 0 {
            self.server.refuse(&self.clients[who]);
            self.trace.note(format_args!("client {who} is refused"));
        } else if refused == 1 {
            let cut = serves_for.mul_f64(self.random.f64());
            self.end_after(cut, Ending::Cut(who));
            self.end_after(serves_for, Ending::Refuse(who));
        }
        self.end_after(lasting, Ending::Heal);
    }

    /// Cuts off a client and its server from all others: no other server accepts the client.
    fn cut_off_with_server(&mut self, who: usize) {
        let Some(server) = self.server_of(who) else { return };
        let lasting = self.timeout.mul_f64(2.0 * self.random.f64());
        self.server.refuse(&self.clients[who]);
        self.server.cut_off(server, lasting);
        self.hit(format_args!("client {who} and server {server} are cut off for {lasting:?}"));
        self.end_after(lasting, Ending::Heal);
    }

    fn an_operation(&mut self) -> Option<Operation> {
        match self.random.u8(..6) {
            0..=1 => Some(Operation::Create),
            2 => Some(Operation::Delete),
            3 => Some(Operation::List),
            4 => Some(Operation::GetData),
            _ => None,
        }
    }
}
