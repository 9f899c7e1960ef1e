//! An ensemble of ZooKeeper servers, three at first, that talk to each other on a network of their own, while clients
//! reach them over Docker's default network: taking a server off the first does not touch its clients.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::Mutex;

use super::container::Container;
use super::four_letter;
use super::network::Network;
use super::server;
use super::waiting::{eventually, unique_suffix, until};

const SIZE: usize = 3;
const QUORUM: Duration = Duration::from_secs(60);
/// Docker's default network. Of a container's networks the one whose name sorts first carries the published
/// port, so the network of the servers has a name that sorts behind it.
const CLIENT_NETWORK: &str = "bridge";
/// Java keeps for ten seconds that a name has no address, so that a member that comes back would be missed.
const NAMES_ARE_NEW: (&str, &str) =
    ("/names.properties", "networkaddress.cache.ttl=0\nnetworkaddress.cache.negative.ttl=0\n");

/// One server of an ensemble.
#[derive(Debug)]
pub struct Member {
    container: Container,
    name: String,
    /// Running, not paused and not cut off: a quorum needs it.
    able: AtomicBool,
}

/// Servers in containers, removed on drop. Members are counted from 0.
#[derive(Debug)]
pub struct Ensemble {
    // Dropped in this order: a network with containers on it cannot be removed.
    members: Vec<Member>,
    network: Network,
}

impl Ensemble {
    /// Starts three servers and waits until they have elected a leader.
    pub async fn start() -> Ensemble {
        Ensemble::start_with(|_, settings| settings).await
    }

    /// As `start`, with further settings for each member, counted from 0.
    pub async fn start_with(settings_of: impl Fn(usize, server::Builder) -> server::Builder) -> Ensemble {
        let suffix = unique_suffix();
        let network = Network::create(format!("zookeeper-{suffix}")).await;
        let names: Vec<String> = (1..=SIZE).map(|id| format!("zk{id}-{suffix}")).collect();
        let servers: Vec<String> = (1..).zip(&names).map(|(id, name)| line(id, name)).collect();
        let starts = (1..).zip(names).map(|(id, name)| {
            let settings = settings_of(id - 1, settings());
            Member::start(id, name, &servers, &network, settings)
        });
        let members = join_all(starts).await;
        let ensemble = Ensemble { members, network };
        ensemble.wait_for_quorum().await;
        ensemble
    }

    /// Starts as many servers again, which wait until `reconfig` adds them. Returns their lines in the configuration.
    pub async fn add(&mut self, settings_of: impl Fn(usize, server::Builder) -> server::Builder) -> Vec<String> {
        let (size, suffix) = (self.size(), unique_suffix());
        let known: Vec<String> = (1..).zip(&self.members).map(|(id, member)| line(id, &member.name)).collect();
        let added: Vec<(usize, String)> = (size + 1..=2 * size).map(|id| (id, format!("zk{id}-{suffix}"))).collect();
        let lines: Vec<String> = added.iter().map(|(id, name)| line(*id, name)).collect();
        let starts = added.into_iter().zip(&lines).map(|((id, name), own)| {
            let servers: Vec<String> = known.iter().chain([own]).cloned().collect();
            Member::start(id, name, &servers, &self.network, settings_of(id - 1, settings()))
        });
        let members = join_all(starts).await;
        self.members.extend(members);
        lines
    }

    /// Ends the first members, which must have left the configuration. The others are counted from 0 then.
    pub fn remove_first(&mut self, count: usize) {
        self.members.drain(..count);
    }

    /// The ensemble that the tests of this process share; the last user's drop removes it. Leave it whole.
    pub async fn shared() -> Arc<Ensemble> {
        static SHARED: Mutex<Weak<Ensemble>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(ensemble) = shared.upgrade() {
            return ensemble;
        }
        let ensemble = Arc::new(Ensemble::start().await);
        *shared = Arc::downgrade(&ensemble);
        ensemble
    }

    /// The connect string of all members.
    pub fn connect_string(&self) -> String {
        let addrs: Vec<String> = self.members.iter().map(Member::connect_string).collect();
        addrs.join(",")
    }

    /// The member number `i`, from 0.
    pub fn member(&self, i: usize) -> &Member {
        &self.members[i]
    }

    /// How many members there are, able or not.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The number of the leader, once there is exactly one and the other able members follow.
    pub async fn leader(&self) -> usize {
        self.wait_for_quorum().await
    }

    /// The numbers of the followers, once there is a quorum.
    pub async fn followers(&self) -> Vec<usize> {
        let leader = self.wait_for_quorum().await;
        self.able().filter(|&i| i != leader).collect()
    }

    /// Waits until exactly one able member leads and all the others follow; returns the leader. Able are
    /// those that were not stopped, killed, paused or isolated.
    pub async fn wait_for_quorum(&self) -> usize {
        until("one member leads and the others follow", QUORUM, || async {
            let able: Vec<usize> = self.able().collect();
            let modes = join_all(able.iter().map(|&i| self.members[i].mode())).await;
            let count = |wanted| modes.iter().filter(|mode| mode.as_deref() == Some(wanted)).count();
            let whole = able.len() > self.size() / 2 && count("leader") == 1 && count("follower") == able.len() - 1;
            let leader = modes.iter().position(|mode| mode.as_deref() == Some("leader"))?;
            whole.then_some(able[leader])
        })
        .await
    }

    fn able(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.size()).filter(|&i| self.members[i].able.load(Ordering::SeqCst))
    }

    fn set_able(&self, i: usize, able: bool) {
        self.members[i].able.store(able, Ordering::SeqCst);
    }

    /// Ends member `i` in good order; data and port stay.
    pub async fn stop(&self, i: usize) {
        self.set_able(i, false);
        self.members[i].container.stop().await;
    }

    /// Ends member `i` with SIGKILL; data and port stay.
    pub async fn kill(&self, i: usize) {
        self.set_able(i, false);
        self.members[i].container.kill().await;
    }

    /// Starts the stopped or killed member `i` again and waits until it serves, which needs a quorum.
    pub async fn start_again(&self, i: usize) {
        self.members[i].container.start_again().await;
        self.members[i].container.wait_until_serving().await;
        self.set_able(i, true);
    }

    /// Freezes member `i`: its connections stay, nothing answers.
    pub async fn pause(&self, i: usize) {
        self.set_able(i, false);
        self.members[i].container.pause().await;
    }

    /// Ends the pause of member `i`; it may take itself for what it was before for a moment.
    pub async fn unpause(&self, i: usize) {
        self.members[i].container.unpause().await;
        self.set_able(i, true);
    }

    /// Cuts member `i` off from the other members; its clients stay connected until it notices.
    pub async fn isolate(&self, i: usize) {
        self.set_able(i, false);
        self.members[i].container.leave(self.network.name()).await;
    }

    /// Ends the isolation of member `i`.
    pub async fn rejoin(&self, i: usize) {
        let member = &self.members[i];
        member.container.join(self.network.name(), Some(&member.name)).await;
        self.set_able(i, true);
    }

    /// Cuts member `i`, which must be a follower, off from the leader (and from the other follower).
    pub async fn cut_follower_from_leader(&self, i: usize) {
        assert_ne!(self.leader().await, i, "member {i} is the leader");
        self.isolate(i).await;
    }
}

/// The settings that all members have.
fn settings() -> server::Builder {
    server::Builder::new()
        .config("quorumListenOnAllIPs=true")
        .config("initLimit=20")
        .config("syncLimit=3")
        .config("cnxTimeout=1000")
        .jvm_flag(format!("-Djava.security.properties={}", NAMES_ARE_NEW.0))
        // How often a server that looks for a leader asks again.
        .jvm_flag("-Dzookeeper.fastleader.maxNotificationInterval=1000")
}

/// The line of a member in the configuration.
fn line(id: usize, name: &str) -> String {
    format!("server.{id}={name}:2888:3888;2181")
}

impl Member {
    /// Starts a server that knows these servers, itself among them.
    fn start(
        id: usize,
        name: String,
        servers: &[String],
        network: &Network,
        settings: server::Builder,
    ) -> impl Future<Output = Member> + use<> {
        let mut settings = settings.settings();
        settings.env.push(("ZOO_MY_ID".to_owned(), id.to_string()));
        settings.env.push(("ZOO_SERVERS".to_owned(), servers.join(" ")));
        settings.name = Some(name.clone());
        settings.network = Some(network.name().to_owned());
        settings.files.push((NAMES_ARE_NEW.0, NAMES_ARE_NEW.1.into()));
        async move {
            let container = Container::start(settings).await;
            // Before any client connects: this moves the published port to the other network.
            container.join(CLIENT_NETWORK, None).await;
            Member { container, name, able: AtomicBool::new(true) }
        }
    }

    /// Where clients reach this member.
    pub fn addr(&self) -> SocketAddr {
        self.container.addr()
    }

    /// The address as a connect string.
    pub fn connect_string(&self) -> String {
        self.addr().to_string()
    }

    /// The names and contents of its transaction logs and snapshots, also after its end.
    pub async fn logs(&self) -> Vec<(String, Vec<u8>)> {
        self.container.logs().await
    }

    /// `leader` or `follower`; nothing while the member does not serve.
    pub async fn mode(&self) -> Option<String> {
        four_letter::mode(self.addr()).await
    }

    /// Waits until the member does not serve (any more).
    pub async fn wait_until_not_serving(&self) {
        let what = format!("the member at {} stops serving", self.addr());
        eventually(&what, QUORUM, || async { self.mode().await.is_none() }).await;
    }

    /// Waits until the member serves.
    pub async fn wait_until_serving(&self) {
        self.container.wait_until_serving().await;
    }
}
