//! Compares ten thousand instances in a hundred services with a bare socket that reads the same on the same real
//! server: the first reading of all, and one change. Then the time of a choice.
//!
//! `cargo bench --features integration --bench service_discovery`. The bare socket is the limit: frames written by hand
//! on a blocking socket, as many in flight, nothing decoded and nothing kept. Both take turns. Each ratio is the median
//! over the rounds, of which the first is not counted; the aim for the first reading is at most 1.2. For a choice, the
//! limit is a load of an `ArcSwap` and a clone of what is in it; the aim is less than 100 ns.

mod choice;
#[path = "../shared/follower.rs"]
mod follower;
#[path = "../shared/pipelined.rs"]
mod pipelined;
#[allow(dead_code)]
#[path = "../side_by_side/bare/socket.rs"]
mod socket;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use zookeeper_recipes::service_discovery::{Change, Instance, Service, ServiceDiscovery};
use zookeeper_recipes::{Client, RequestCounts};

use self::follower::Follower;
use self::pipelined::{median, pipelined, timed};
use self::socket::{PERSISTENT, Socket};
use self::support::{ZooKeeper, unique_path, within};

const INSTANCES: usize = 100;
/// The ports of changes that are measured with a service are above it.
const OURS: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(120);

/// How much is measured.
struct Size {
    services: usize,
    rounds: usize,
    /// The changes in each round.
    changes: usize,
    /// The choices in each round, of each thread.
    choices: usize,
}

/// With cargo's flag. Without it, this only tests that the benchmark works.
const FULL: Size = Size { services: 100, rounds: 15, changes: 200, choices: 2_000_000 };
const TRIAL: Size = Size { services: 2, rounds: 1, changes: 2, choices: 1_000 };

/// Services on the server.
struct Services {
    base: String,
    names: Vec<String>,
    dirs: Vec<String>,
    instances: Vec<String>,
}

/// Returns the data of an instance, as Curator writes it.
fn record(service: &str, id: &str, port: usize) -> Vec<u8> {
    format!(r#"{{"name":"{service}","id":"{id}","address":"10.0.0.1","port":{port},"sslPort":null,"payload":"zone-a","#)
        .into_bytes()
        .into_iter()
        .chain(*br#""registrationTimeUTC":1795690773844,"serviceType":"STATIC","uriSpec":null}"#)
        .collect()
}

impl Services {
    /// Creates them. Their instances are static, so that they need no session.
    fn create(socket: &mut Socket, services: usize) -> Services {
        let base = unique_path("services");
        let names: Vec<String> = (0..services).map(|service| format!("service-{service:03}")).collect();
        let dirs: Vec<String> = names.iter().map(|name| format!("{base}/{name}")).collect();
        let ids: Vec<String> = (0..INSTANCES).map(|id| format!("instance-{id:03}")).collect();
        let all: Vec<(&String, &String)> = names.iter().flat_map(|name| ids.iter().map(move |id| (name, id))).collect();
        socket.create(&base, b"", PERSISTENT);
        pipelined(socket, &dirs, |socket, dir| socket.add_create(dir, b"", PERSISTENT));
        pipelined(socket, &all, |socket, (name, id)| {
            socket.add_create(&format!("{base}/{name}/{id}"), &record(name, id, 80), PERSISTENT);
        });
        let instances = all.iter().map(|(name, id)| format!("{base}/{name}/{id}")).collect();
        Services { base, names, dirs, instances }
    }
}

/// The times of both in the rounds of one row.
#[derive(Default)]
struct Times {
    bare: Vec<Duration>,
    ours: Vec<Duration>,
}

impl Times {
    /// Prints the row: the median of each column, and the median of the ratios in each round.
    fn print(&self, what: &str, more: &str) {
        let micros = |times: &[Duration]| median(times.iter().map(|time| time.as_secs_f64() * 1e6).collect());
        let cell = |times: &[Duration]| micros(times).map_or("-".to_owned(), |micros| format!("{micros:.0} µs"));
        let ratios = self.bare.iter().zip(&self.ours).map(|(bare, ours)| ours.as_secs_f64() / bare.as_secs_f64());
        let ratio = median(ratios.collect()).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        println!("{what:<40} | {:>11} | {:>11} | {ratio:>5} | {more}", cell(&self.bare), cell(&self.ours));
    }
}

fn port(number: usize) -> Option<u16> {
    u16::try_from(number).ok()
}

async fn start(client: &Client, services: &Services) -> Vec<Service<String>> {
    let discovery = ServiceDiscovery::<String>::new(client, &services.base).expect("a good path");
    let starting = try_join_all(services.names.iter().map(|name| discovery.service(name).start()));
    within("all services", PATIENCE, starting).await.expect("they start")
}

/// Starts all services at once. The bare socket lists their directories, and reads their instances.
async fn first_reading(client: &Client, socket: &mut Socket, services: &Services, rounds: usize) {
    let (mut times, mut requests) = (Times::default(), RequestCounts::default());
    for round in 0..=rounds {
        if round == 1 {
            times = Times::default();
        }
        times.bare.push(timed(|| {
            pipelined(socket, &services.dirs, |socket, dir| socket.add_list(dir));
            pipelined(socket, &services.instances, |socket, path| socket.add_get(path, false));
        }));
        let before = client.request_counts();
        let began = Instant::now();
        let started = start(client, services).await;
        times.ours.push(began.elapsed());
        requests = client.request_counts() - before;
        assert!(started.iter().all(|service| service.instances().len() == INSTANCES));
        drop(started);
        // Their watches are removed in the background.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let bare = services.dirs.len() + services.instances.len();
    let more = format!("{} requests: {requests}; {bare} for the bare socket", requests.total());
    times.print(&format!("start {} services of {INSTANCES}", services.names.len()), &more);
}

/// Writes one instance at a time, and waits until it is read. In the other column, another bare socket follows.
async fn one_change(client: &Client, server: &str, socket: &mut Socket, services: &Services, size: &Size) {
    let started = start(client, services).await;
    let (name, dir, path) = (&services.names[0], &services.dirs[0], &services.instances[0]);
    let id = path.rsplit('/').next().expect("a name");
    let (mut times, mut sent) = (Times::default(), RequestCounts::default());
    for _ in 0..=size.rounds {
        let mut follower = Follower::start(server, dir);
        let bare = timed(|| {
            for number in 1..=size.changes {
                socket.add_set(path, &record(name, id, number));
                socket.send();
                follower.take(1);
                socket.answer();
            }
        });
        drop(follower);
        let is_last = |instance: Option<Instance<String>>| instance.is_some_and(|one| one.port() == port(size.changes));
        within("the last change", PATIENCE, started[0].wait_until(|now| is_last(now.get(id)))).await.expect("it comes");
        let mut changes = started[0].changes();
        let before = client.request_counts();
        let began = Instant::now();
        for number in 1..=size.changes {
            socket.add_set(path, &record(name, id, OURS + number));
            socket.send();
            let change = within("a change", PATIENCE, changes.next()).await;
            let Some(Change::Updated { new, .. }) = change else { panic!("another change: {change:?}") };
            assert_eq!(new.port(), port(OURS + number));
            socket.answer();
        }
        times.ours.push(began.elapsed() / size.changes as u32);
        times.bare.push(bare / size.changes as u32);
        sent = client.request_counts() - before;
    }
    let more = format!("{} changes: {sent}", size.changes);
    times.print("one change, until it is reported", &more);
}

#[tokio::main]
async fn main() {
    let size = if std::env::args().any(|arg| arg == "--bench") { FULL } else { TRIAL };
    let server = ZooKeeper::shared().await;
    let to = server.connect_string();
    let client = Client::builder(&to).session_timeout(Duration::from_secs(30)).connect().await.expect("a client");
    let mut socket = Socket::connect(&to);
    let services = Services::create(&mut socket, size.services);
    println!("{:<40} | {:>11} | {:>11} | ratio |", "", "bare socket", "ours");
    first_reading(&client, &mut socket, &services, size.rounds).await;
    one_change(&client, &to, &mut socket, &services, &size).await;
    choice::measure(&client, &services.base, &services.names[0], size.rounds, size.choices).await;
    client.close().await.expect("closed");
}
