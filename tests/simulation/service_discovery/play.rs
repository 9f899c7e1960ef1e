//! Processes register instances, some under the same id, change them, unregister and come back; others look for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::{FutureExt, poll};
use tokio::time::{Instant, timeout};
use zookeeper_recipes::service_discovery::{Error, ServiceDiscovery, ServiceType, Strategy};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::ledger::{BASE, CONTESTED, FOREIGN, Ledger, SERVICES, Written, path_of};
use super::looker::{Looker, Seats, Starting, down_policy};
use super::registered::{Entry, Life, described};
use crate::seeds::Outcome;
use crate::world::World;

/// The number of actions in a seed.
const ACTS: usize = 60;
const MOST_CLIENTS: usize = 7;
const MOST_ENTRIES: usize = 12;
const MOST_LOOKERS: usize = 6;
/// The longest time that a message may be under way.
const MOST_DELAY: Duration = Duration::from_secs(30);
/// More than a request may have.
const TOO_LARGE: usize = 2 << 20;

struct Play {
    world: World,
    ledger: Arc<Ledger>,
    seats: Arc<Seats>,
    entries: Vec<Entry>,
    /// When a registration of a client was last dropped, by its path.
    dropped: BTreeMap<(usize, String), Instant>,
    starting: Vec<Starting>,
    lookers: Vec<Looker>,
    /// The number of the next looker.
    next: usize,
}

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Outcome {
    let (ledger, seats) = (Arc::new(Ledger::default()), Arc::new(Seats::default()));
    let (check, look) = (Arc::clone(&ledger), Arc::clone(&seats));
    let after_each_step = move || {
        check.glance();
        if let Some(violation) = look.glance() {
            check.object(violation);
        }
    };
    let world = World::new(seed, after_each_step).await;
    ledger.watch(&world);
    seats.watch(&world.thaws, world.timeout);
    let (entries, starting, lookers) = (Vec::new(), Vec::new(), Vec::new());
    let mut play = Play { world, ledger, seats, entries, dropped: BTreeMap::new(), starting, lookers, next: 0 };
    let played = play.run().await;
    let Play { mut world, ledger, seats, .. } = play;
    seats.clear();
    ledger.release();
    world.figures.turns = ledger.creations();
    world.figures.hand_overs = ledger.hand_overs();
    world.trace.note_records(&world.server);
    Outcome { figures: world.figures, violation: ledger.violation().or(played.err()), trace: world.trace.lines() }
}

impl Play {
    async fn run(&mut self) -> Result<(), String> {
        for client in 0..self.world.clients.len() {
            self.register(client);
            self.look();
        }
        for _ in 0..ACTS {
            let most = self.world.timeout;
            let time = self.world.a_while(most);
            self.world.pass(time).await;
            self.settle()?;
            self.act().await?;
        }
        self.world.heal();
        self.agree().await?;
        self.end().await?;
        self.world.close().await
    }

    async fn act(&mut self) -> Result<(), String> {
        match self.world.random.u8(..34) {
            0..=4 => {
                let client = self.world.a_client();
                self.register(client);
            }
            5..=8 => self.set(true).await?,
            9..=11 => self.set(false).await?,
            12 => self.set_what_is_refused().await?,
            13..=15 => self.unregister().await?,
            16 => self.forget(),
            17 => self.delete_by_hand(),
            18 => self.put_or_remove_a_foreign_node(),
            19 => self.look(),
            20 => self.stop_looking(),
            21..=23 => self.report(),
            24 => self.world.expire(),
            25 if self.world.clients.len() < MOST_CLIENTS => {
                if let Some(client) = self.world.crash().await {
                    self.register(client);
                }
            }
            _ => self.world.fault(),
        }
        Ok(())
    }

    /// Registers an instance whose id no other registration of this client has: two of one session would share the
    /// node, and the one that ends first would delete it.
    fn register(&mut self, client: usize) {
        let service = SERVICES[self.world.random.usize(..SERVICES.len())];
        // Only registrations of one client have these ids. Two may share the node after one was dropped.
        let (id, service_type) = match self.world.random.u8(..10) {
            0..=1 => (format!("own-{client}"), ServiceType::Dynamic),
            2 => (format!("static-{client}"), ServiceType::Static),
            3 => (format!("static-{client}"), ServiceType::Permanent),
            4 => ("q".to_owned(), ServiceType::DynamicSequential),
            _ => (CONTESTED[self.world.random.usize(..CONTESTED.len())].to_owned(), ServiceType::Dynamic),
        };
        let is_taken = |entry: &Entry| entry.client == client && entry.service == service && entry.id == id;
        if self.entries.len() >= MOST_ENTRIES || self.entries.iter().any(is_taken) {
            return;
        }
        let until_gone = self.world.timeout * 3 + MOST_DELAY;
        let dropped = self.dropped.get(&(client, path_of(service, &id)));
        if CONTESTED.contains(&&*id) && dropped.is_some_and(|at| at.elapsed() < until_gone) {
            return;
        }
        let (waits, is_enabled) = (self.world.random.u8(..6) > 0, self.world.random.u8(..4) > 0);
        let number = self.ledger.begins(client);
        self.world.trace.note(format_args!("{number} of client {client} registers as {service} {id}, waits: {waits}"));
        let of = self.world.clients[client].clone();
        let discovery = ServiceDiscovery::<String>::builder(&of, BASE);
        let discovery = if waits { discovery.wait() } else { discovery }.build().expect("a good path");
        let instance = described(number, service, &id, service_type, format!("{number}.0"), is_enabled);
        let ledger = Arc::clone(&self.ledger);
        let registering = async move {
            let registered = discovery.register(instance).await;
            if registered.is_err() {
                ledger.ends(number);
            }
            registered
        };
        let life = Life::Registering(self.world.server.spawn(&of, registering));
        let setting = Vec::new();
        self.entries.push(Entry {
            number,
            client,
            service,
            id,
            service_type,
            waits,
            version: 0,
            is_enabled,
            life,
            setting,
        });
    }

    fn an_entry(&mut self) -> Option<usize> {
        (!self.entries.is_empty()).then(|| self.world.random.usize(..self.entries.len()))
    }

    /// Updates an instance, or enables or disables it, which counts once the call was polled. By chance, the call is
    /// then dropped.
    async fn set(&mut self, updates: bool) -> Result<(), String> {
        let (Some(at), is_dropped) = (self.an_entry(), self.world.random.bool()) else { return Ok(()) };
        let entry = &mut self.entries[at];
        let Some(registration) = entry.registration().map(Arc::clone) else { return Ok(()) };
        // An update replaces whether it is enabled, too.
        entry.is_enabled ^= !updates || entry.version % 4 == 3;
        entry.version += usize::from(updates);
        let (number, instance, enabled) = (entry.number, entry.instance(), entry.is_enabled);
        self.world.trace.note(format_args!("{number} sets {:?}, dropped: {is_dropped}", entry.written()));
        let mut setting = Box::pin(async move {
            if updates { registration.update(instance).await } else { registration.set_enabled(enabled).await }
        });
        match poll!(&mut setting) {
            Poll::Ready(Err(error)) => return Err(format!("{number} cannot be updated: {error}")),
            Poll::Pending if !is_dropped => {
                entry.setting.push(self.world.server.spawn(&self.world.clients[entry.client], setting));
            }
            _ => self.world.figures.cancelled += 1,
        }
        Ok(())
    }

    /// Updates an instance in a way that is refused, so that nothing changes.
    async fn set_what_is_refused(&mut self) -> Result<(), String> {
        let (Some(at), is_large) = (self.an_entry(), self.world.random.u8(..8) == 0) else { return Ok(()) };
        let entry = &self.entries[at];
        let Entry { number, service, ref id, service_type, .. } = *entry;
        let Some(registration) = entry.registration() else { return Ok(()) };
        let (id, payload) = if is_large { (&**id, "x".repeat(TOO_LARGE)) } else { ("another", "x".to_owned()) };
        let refused = described(number, service, id, service_type, payload, false);
        self.world.trace.note(format_args!("{number} is to become another one, large: {is_large}"));
        match registration.update(refused).now_or_never() {
            Some(Err(error)) if error.kind() == ErrorKind::InvalidArgument => Ok(()),
            result => Err(format!("{number} was updated with what is not allowed: {result:?}")),
        }
    }

    async fn unregister(&mut self) -> Result<(), String> {
        let (Some(at), is_dropped) = (self.an_entry(), self.world.random.u8(..4) == 0) else { return Ok(()) };
        if self.entries[at].registration().is_none() {
            return Ok(());
        }
        let mut entry = self.entries.remove(at);
        self.world.trace.note(format_args!("{} is unregistered, dropped: {is_dropped}", entry.number));
        let mut unregistering = Box::pin(self.unregistering(&entry));
        if is_dropped {
            let _ = poll!(&mut unregistering);
            self.is_dropped(entry);
        } else {
            let client = &self.world.clients[entry.client];
            entry.life = Life::Unregistering(self.world.server.spawn(client, unregistering));
            self.entries.push(entry);
        }
        Ok(())
    }

    /// Returns a call of `unregister`, after which the ledger expects no node.
    fn unregistering(&self, entry: &Entry) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (number, registration) = (entry.number, entry.registration().map(Arc::clone));
        let ledger = Arc::clone(&self.ledger);
        ledger.ends(number);
        async move {
            let Some(registration) = registration else { return Ok(()) };
            registration.unregister().await?;
            ledger.ended(number);
            // It may be called twice.
            registration.unregister().await
        }
    }

    fn is_dropped(&mut self, mut entry: Entry) {
        self.ledger.ends(entry.number);
        self.dropped.insert((entry.client, path_of(entry.service, &entry.id)), Instant::now());
        self.world.figures.cancelled += 1;
        entry.abort();
    }

    /// Drops a registration, in whatever state it is.
    fn forget(&mut self) {
        let Some(at) = self.an_entry() else { return };
        let entry = self.entries.remove(at);
        self.world.trace.note(format_args!("{} is dropped", entry.number));
        self.is_dropped(entry);
    }

    fn delete_by_hand(&mut self) {
        let number = self.world.random.usize(..32);
        if let Some(path) = self.ledger.delete_by_hand(&self.world.server, number) {
            self.world.hit(format_args!("{path} is deleted by hand"));
        }
    }

    fn put_or_remove_a_foreign_node(&mut self) {
        let path = path_of(SERVICES[self.world.random.usize(..SERVICES.len())], FOREIGN);
        let data = ["", "{", r#"{"name":"x"}"#, r#"{"name":"x","id":"1","payload":7}"#][self.world.random.usize(..4)];
        let server = &self.world.server;
        if server.delete_by_hand(&path).is_ok() {
            self.world.trace.note(format_args!("{path} is removed"));
        } else if server.create_by_hand(&path, data, CreateMode::Persistent).is_ok() {
            self.world.trace.note(format_args!("{path} has {data:?}"));
        }
    }

    /// Begins to look for a service.
    fn look(&mut self) {
        let (client, of) = (self.world.a_client(), SERVICES[self.world.random.usize(..SERVICES.len())]);
        let is_sticky = self.world.random.bool();
        if self.lookers.len() + self.starting.len() >= MOST_LOOKERS {
            return;
        }
        let discovery = ServiceDiscovery::<String>::new(&self.world.clients[client], BASE).expect("a good path");
        let strategy = if is_sticky { Strategy::Sticky } else { Strategy::RoundRobin };
        let starting = discovery.service(of).strategy(strategy).down_policy(down_policy()).start();
        let task = self.world.server.spawn(&self.world.clients[client], starting);
        self.starting.push(Starting { client, of, is_sticky, task });
    }

    fn stop_looking(&mut self) {
        let at = self.world.random.usize(..MOST_LOOKERS);
        if at < self.lookers.len() {
            let looker = self.lookers.remove(at);
            self.world.trace.note(format_args!("looker {} is dropped", looker.number));
        } else if let Some(mut starting) = self.starting.pop() {
            self.world.figures.cancelled += 1;
            starting.task.abort();
        }
    }

    /// Lets a process report that an instance has failed, or works.
    fn report(&mut self) {
        let at = self.world.random.usize(..MOST_LOOKERS);
        let Some(looker) = self.lookers.get_mut(at) else { return };
        if self.world.server.is_frozen(&self.world.clients[looker.client]) {
            return;
        }
        if let Some(what) = looker.report(&mut self.world.random, &self.world.thaws) {
            self.world.trace.note(format_args!("looker {} reports that {what}", looker.number));
        }
    }

    /// Notes what has happened, and checks the invariants.
    fn settle(&mut self) -> Result<(), String> {
        for (number, client) in self.world.clients.iter().enumerate() {
            if let Some(session) = client.session_id() {
                self.ledger.session(session, number);
            }
        }
        for mut entry in std::mem::take(&mut self.entries) {
            let number = entry.number;
            for mut setting in std::mem::take(&mut entry.setting) {
                match (&mut setting).now_or_never() {
                    None => entry.setting.push(setting),
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(Error::Closed { .. }))) if entry.registration().is_none() => {}
                    Some(outcome) => return Err(format!("{number} was not updated: {outcome:?}")),
                }
            }
            match &mut entry.life {
                Life::Registering(task) => match task.now_or_never() {
                    None => {}
                    Some(Ok(Ok(registration))) => {
                        self.world.trace.note(format_args!("{number} is registered"));
                        entry.life = Life::Registered(Arc::new(registration));
                    }
                    // Never by its own session. One that its client gave up may still have the node.
                    Some(Ok(Err(Error::Taken { session, .. })))
                        if !entry.waits && self.world.clients[entry.client].session_id() != Some(session) =>
                    {
                        self.world.trace.note(format_args!("{number} finds its id taken"));
                        self.is_dropped(entry);
                        continue;
                    }
                    Some(outcome) => return Err(format!("{number} was not registered: {outcome:?}")),
                },
                Life::Registered(registration) => {
                    let registration = Arc::clone(registration);
                    if registration.instance() != entry.instance() {
                        let (has, wanted) = (registration.instance(), entry.instance());
                        return Err(format!("{number} is {has:?}, and should be {wanted:?}"));
                    }
                }
                Life::Unregistering(task) => match task.now_or_never() {
                    None => {}
                    Some(Ok(Ok(()))) => {
                        self.world.trace.note(format_args!("{number} is unregistered"));
                        entry.abort();
                        continue;
                    }
                    Some(outcome) => return Err(format!("{number} was not unregistered: {outcome:?}")),
                },
            }
            self.entries.push(entry);
        }
        self.settle_lookers()?;
        self.ledger.look();
        self.ledger.violation().map_or(Ok(()), Err)
    }

    fn settle_lookers(&mut self) -> Result<(), String> {
        for mut starting in std::mem::take(&mut self.starting) {
            let Starting { client, of, is_sticky, .. } = starting;
            match (&mut starting.task).now_or_never() {
                None => self.starting.push(starting),
                Some(Ok(Ok(service))) => {
                    let looker = Looker::new(self.next, client, of, service, is_sticky);
                    self.world.trace.note(format_args!("looker {} of client {client} looks for {of}", self.next));
                    self.next += 1;
                    self.seats.sit(&looker, &self.world.clients[client]);
                    self.lookers.push(looker);
                }
                Some(outcome) => return Err(format!("{of} was not looked for: {outcome:?}")),
            }
        }
        for looker in &mut self.lookers {
            looker.fold()?;
            if !self.world.server.is_frozen(&self.world.clients[looker.client]) {
                looker.check_choices(&self.world.thaws, self.seats.is_recovering(looker))?;
            }
        }
        Ok(())
    }

    /// Returns the time after healing within which everything must have happened: sessions are given up, and calls are
    /// retried.
    fn patience(&self) -> Duration {
        self.world.timeout * 3 + Duration::from_secs(20)
    }

    /// Waits until what is found is what is registered, after healing.
    async fn agree(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + self.patience();
        self.world.pass(self.world.quiet()).await;
        loop {
            self.settle()?;
            let Err(difference) = self.compare() else { break };
            if Instant::now() > deadline {
                return Err(format!("long after everything was healed: {difference}"));
            }
            self.world.pass(Duration::from_millis(50)).await;
        }
        let client = self.world.a_client();
        let discovery = ServiceDiscovery::<String>::new(&self.world.clients[client], BASE).expect("a good path");
        let names = timeout(self.patience(), discovery.names()).await.map_err(|_| "names() does not return")?;
        let names = names.map_err(|error| format!("names() fails: {error}"))?;
        let there = self.world.server.children(BASE);
        // An empty container may be removed at any time, and the server that is asked may lag.
        let is_right = there.iter().all(|name| names.contains(name)) && names.len() <= SERVICES.len();
        if is_right { Ok(()) } else { Err(format!("the names are {names:?}, but there are {there:?}")) }
    }

    /// Compares what is registered with the nodes, and these with what is found.
    fn compare(&self) -> Result<(), String> {
        if !self.starting.is_empty() {
            return Err(format!("{} services are still being looked for", self.starting.len()));
        }
        for service in SERVICES {
            let (mut nodes, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
            for name in self.world.server.children(&format!("{BASE}/{service}")) {
                let path = path_of(service, &name);
                let data = self.world.server.get(&path).unwrap_or_default();
                match Written::read(&data) {
                    Some(written) => drop(nodes.insert(path, written)),
                    None => drop(unreadable.insert(path)),
                }
            }
            self.compare_nodes(service, &nodes)?;
            for looker in self.lookers.iter().filter(|looker| looker.of == service) {
                looker.compare(&nodes, &unreadable)?;
            }
        }
        Ok(())
    }

    fn compare_nodes(&self, service: &str, nodes: &BTreeMap<String, Written>) -> Result<(), String> {
        let mut expected = BTreeSet::new();
        for entry in self.entries.iter().filter(|entry| entry.service == service) {
            if !entry.is_live() {
                return Err(format!("{} is still being unregistered", entry.number));
            }
            let is_contested = CONTESTED.contains(&&*entry.id);
            if is_contested && !entry.is_present() {
                entry.check_waiting()?;
                expected.insert(path_of(service, &entry.id));
                continue;
            }
            let path = entry.registration().map(|registration| registration.path());
            let path = path.ok_or_else(|| format!("{} is still registering", entry.number))?;
            let is_spoiled = self.world.server.stat(&path).is_some_and(|stat| self.ledger.is_spoiled(stat.czxid));
            entry.check_node(nodes.get(&path).filter(|_| !is_spoiled))?;
            expected.insert(path);
        }
        let there: BTreeSet<_> = nodes.keys().cloned().collect();
        if there != expected { Err(format!("there are {there:?}, not {expected:?}")) } else { Ok(()) }
    }

    /// Unregisters all instances. Those that wait get their ids one after the other.
    async fn end(&mut self) -> Result<(), String> {
        self.lookers.clear();
        let mut deadline = Instant::now() + self.patience();
        loop {
            self.settle()?;
            for at in 0..self.entries.len() {
                if self.entries[at].registration().is_some() {
                    let unregistering = self.unregistering(&self.entries[at]);
                    let client = &self.world.clients[self.entries[at].client];
                    let task = self.world.server.spawn(client, unregistering);
                    self.entries[at].life = Life::Unregistering(task);
                    deadline = Instant::now() + self.patience();
                }
            }
            for service in SERVICES {
                self.world.sweep(&path_of(service, FOREIGN));
            }
            let left = |service| self.world.server.children(&format!("{BASE}/{service}"));
            let (nodes, watches) = (SERVICES.map(left).concat(), self.world.watches());
            if self.entries.is_empty() && nodes.is_empty() && watches == 0 {
                break;
            }
            if Instant::now() > deadline {
                let entries: Vec<_> = self.entries.iter().map(|entry| entry.number).collect();
                return Err(format!("long after all have left there are {entries:?}, {nodes:?}, {watches} watches"));
            }
            self.world.pass(Duration::from_millis(50)).await;
        }
        for service in SERVICES {
            self.world.sweep(&format!("{BASE}/{service}"));
        }
        Ok(())
    }
}
