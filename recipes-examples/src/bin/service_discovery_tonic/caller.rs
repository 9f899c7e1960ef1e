//! A process that calls the service all the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response, Uri};
use recipes_examples::{PATIENCE, Result, count, println};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::body::Body;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::balance::p2c::Balance;
use tower::buffer::Buffer;
use tower::load::{CompleteOnResponse, PendingRequestsDiscover};
use tower::util::BoxCloneService;
use tower::{ServiceExt, service_fn};
use zookeeper_recipes::Client;
use zookeeper_recipes::service_discovery::{Service, ServiceDiscovery};

use crate::connection::Connection;
use crate::process::{ANSWERED_BY, SERVICE};

/// How many calls are made at once.
pub const TASKS: usize = 6;
/// How long one attempt waits for an answer.
const CALL: Duration = Duration::from_secs(5);
/// How often a call is tried.
const ATTEMPTS: u32 = 4;
/// The pause before the second attempt; it doubles.
const PAUSE: Duration = Duration::from_millis(10);
/// How many calls [`Caller::is_answered_by`] looks at.
const SAMPLE: usize = 120;

/// How many calls may wait for the balancer.
const WAITING: usize = 1024;

type Balanced = BoxCloneService<Request<Body>, Response<Incoming>, Status>;

/// Returns a client whose calls are balanced between the instances that are connected.
fn balanced(api: &Service<()>) -> HealthClient<Balanced> {
    let targets = api.targets(|instance| instance.uri()?.parse::<Uri>().ok());
    let connections = targets.make_services(service_fn(Connection::open));
    let balance = Balance::new(PendingRequestsDiscover::new(connections, CompleteOnResponse::default()));
    let calls = Buffer::new(balance, WAITING).map_err(Status::from_error);
    // What servers see as the authority: the service, as the balancer has yet to choose an instance.
    HealthClient::with_origin(BoxCloneService::new(calls), Uri::from_static("http://api"))
}

/// What has come of the calls so far.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    pub calls: usize,
    pub repeated: usize,
    pub unanswered: usize,
    sample: Sample,
}

/// Who has answered the calls that began since the sample did.
#[derive(Debug, Default, Clone)]
struct Sample {
    number: usize,
    calls: usize,
    answers: BTreeMap<String, usize>,
}

/// A process that calls the service all the time, with several calls at once.
pub struct Caller {
    pub api: Service<()>,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    tally: watch::Sender<Tally>,
    ends: AtomicBool,
}

impl Caller {
    /// Starts to call.
    pub async fn start(client: &Client, path: &str) -> Result<Caller> {
        let api = ServiceDiscovery::new(client, path)?.service(SERVICE).start().await?;
        let client = balanced(&api);
        let shared = Arc::<Shared>::default();
        let tasks = (0..TASKS).map(|_| call_on(client.clone(), Arc::clone(&shared))).collect();
        Ok(Caller { api, shared, tasks })
    }

    pub fn tally(&self) -> Tally {
        self.shared.tally.borrow().clone()
    }

    /// Returns, as text, who has answered since the last sample.
    pub fn sample(&self) -> String {
        let mut last = Sample::default();
        self.shared.tally.send_modify(|tally| last = tally.sample.restart());
        last.to_string()
    }

    /// Waits until all these instances answer calls, and no other one does. Prints how the calls are shared. The names
    /// are in order.
    pub async fn is_answered_by(&self, names: &[&str]) -> Result<()> {
        let mut tallies = self.shared.tally.subscribe();
        let mut last = Sample::default();
        let answered = timeout(PATIENCE, async {
            while !last.answers.keys().eq(names) {
                self.sample();
                tallies.wait_for(|tally| tally.sample.calls >= SAMPLE).await?;
                last = tallies.borrow().sample.clone();
            }
            Ok(())
        });
        match answered.await {
            Ok(outcome) => {
                println!("caller: of {last}");
                outcome
            }
            Err(_) => {
                let last = if last.calls > 0 { last.to_string() } else { self.sample() };
                Err(format!("{} should answer within {PATIENCE:?}; of {last}", names.join(", ")).into())
            }
        }
    }

    /// Waits until these are all instances, as URIs.
    pub async fn finds(&self, uris: &[&str]) -> Result<()> {
        let found = self.api.wait_until(|now| {
            let mut found: Vec<_> = now.iter().filter_map(|instance| instance.uri()).collect();
            let mut expected = uris.to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            found == expected
        });
        timeout(PATIENCE, found).await.map_err(|_| format!("the instances were not {uris:?} for {PATIENCE:?}"))??;
        Ok(())
    }

    /// Makes no further calls, waits for those that are under way, and returns what has come of all.
    pub async fn end(mut self) -> Result<Tally> {
        self.shared.ends.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended?;
        }
        Ok(self.tally())
    }
}

/// Calls, one call after the other.
async fn call_on(mut client: HealthClient<Balanced>, shared: Arc<Shared>) {
    while !shared.ends.load(Ordering::Relaxed) {
        let number = shared.tally.borrow().sample.number;
        let answer = call(&mut client, &shared).await;
        shared.tally.send_modify(|tally| {
            tally.calls += 1;
            match answer {
                Some(name) if tally.sample.number == number => tally.sample.count(name),
                Some(_) => {}
                None => tally.unanswered += 1,
            }
        });
    }
}

/// Calls the service, and returns which instance has answered. A health check only reads, so it may be repeated after
/// any failure. One that changes something may not, unless the server knows a repeated one.
async fn call(client: &mut HealthClient<Balanced>, shared: &Shared) -> Option<String> {
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            if shared.ends.load(Ordering::Relaxed) {
                break;
            }
            sleep(PAUSE * 2_u32.pow(attempt - 1)).await;
            shared.tally.send_modify(|tally| tally.repeated += 1);
        }
        match check(client).await {
            Ok(name) => return Some(name),
            Err(status) => println!("caller: attempt {} of a call fails: {}", attempt + 1, status.message()),
        }
    }
    None
}

async fn check(client: &mut HealthClient<Balanced>) -> Result<String, Status> {
    let checked = timeout(CALL, client.check(HealthCheckRequest::default())).await;
    let answer = checked.map_err(|_| Status::deadline_exceeded(format!("no answer within {CALL:?}")))??;
    let name = answer.metadata().get(ANSWERED_BY).and_then(|name| name.to_str().ok());
    name.map(str::to_owned).ok_or_else(|| Status::internal("an answer without a name"))
}

impl Sample {
    fn count(&mut self, name: String) {
        self.calls += 1;
        *self.answers.entry(name).or_default() += 1;
    }

    /// Begins the next sample, and returns this one.
    fn restart(&mut self) -> Sample {
        let next = Sample { number: self.number + 1, ..Sample::default() };
        std::mem::replace(self, next)
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let answers: Vec<_> = self.answers.iter().map(|(name, number)| format!("{name} {number}")).collect();
        let calls = count(self.calls, "call", "calls");
        write!(
            f,
            "{calls}, these have answered: {}",
            if answers.is_empty() { "none".into() } else { answers.join(", ") }
        )
    }
}
