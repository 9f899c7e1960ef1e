//! Everything at once, on one client of a server that takes little: requests on which it closes the connection, a
//! quota, many watches, and a connection that breaks every two seconds. What does no harm goes on after each cut.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use futures::join;
use tokio::time::{Instant, sleep};
use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard};
use zookeeper_recipes::persistent_node::PersistentNode;
use zookeeper_recipes::queue::{DistributedQueue, Producer, RawBytes};
use zookeeper_recipes::{Client, CreateMode, ErrorKind, WatchMode};

use crate::fixture::{SOON, builder, connect, within};
use crate::support::{Observer, Proxy, ZooKeeper, eventually, unique_path};

/// What the servers take; the client believes that it is ZooKeeper's default, sixteen times as much.
const BUFFER: usize = 65_536;
const NODES: usize = 1_000;
const CACHES: usize = 5;
/// How many items the queue with a quota may have, its directory included.
const QUOTA: usize = 20;
const CUTS: u64 = 7;
/// How often each part of [`Done`] must do what it does between a cut and the next one.
const LEAST: [u64; 4] = [15, 3, 8, 3];
/// How long the parts may take for that before they count as held up.
const PATIENCE: Duration = Duration::from_secs(60);

struct Siege {
    client: Client,
    path: String,
    is_over: Cell<bool>,
    done: Done,
}

/// How often each part has done what it does.
#[derive(Debug, Default)]
struct Done {
    grants: Cell<u64>,
    large_refused: Cell<u64>,
    put: Cell<u64>,
    put_limited: Cell<u64>,
}

impl Done {
    fn counts(&self) -> [u64; 4] {
        [&self.grants, &self.large_refused, &self.put, &self.put_limited].map(Cell::get)
    }
}

fn count(done: &Cell<u64>) {
    done.set(done.get() + 1);
}

impl Siege {
    fn goes_on(&self) -> bool {
        !self.is_over.get()
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// The next cut comes once every part has gone on, however long that takes on a busy machine.
    async fn cut(&self, proxy: &Proxy) {
        for _ in 0..CUTS {
            sleep(Duration::from_secs(2)).await;
            proxy.cut().await;
            let before = self.done.counts();
            let goals: Vec<u64> = before.iter().zip(LEAST).map(|(before, least)| before + least).collect();
            let all_went_on = || self.done.counts().iter().zip(&goals).all(|(done, goal)| done >= goal);
            eventually("each part goes on after a cut", PATIENCE, || async { all_went_on() }).await;
        }
        self.is_over.set(true);
    }

    /// Two contenders for a mutex.
    async fn lock(&self) {
        let holder: RefCell<Option<Rc<MutexGuard>>> = RefCell::default();
        let contender = async || {
            let mutex = InterProcessMutex::new(&self.client, self.at("lock")).expect("a mutex");
            while self.goes_on() {
                let Ok(guard) = within("it is acquired", SOON, mutex.acquire()).await else { continue };
                let guard = Rc::new(guard);
                let before = holder.replace(Some(Rc::clone(&guard)));
                assert!(before.is_none_or(|before| !before.is_held()), "two hold it");
                count(&self.done.grants);
                // For a moment in which the other one could be let in, or a cut could come.
                sleep(Duration::from_millis(2)).await;
                holder.borrow_mut().take_if(|holder| Rc::ptr_eq(holder, &guard));
                // A release that is interrupted goes on by itself.
                let _ = Rc::into_inner(guard).expect("only the holder's").release().await;
            }
        };
        join!(contender(), contender());
    }

    fn queue(&self, name: &str) -> DistributedQueue<RawBytes> {
        let queue = DistributedQueue::builder(&self.client, self.at(name), RawBytes);
        queue.claims_path(self.at(&format!("claims-{name}"))).build().expect("a queue")
    }

    /// Puts items that are too large, by the producer of those that are not.
    async fn put_large(&self, producer: &Producer<RawBytes>) {
        while self.goes_on() {
            let put = within("a large put ends", SOON, producer.put(vec![1; 100_000])).await;
            assert_eq!(put.expect_err("it is too large").kind(), ErrorKind::InvalidArgument);
            count(&self.done.large_refused);
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Puts items, of which some may fail for these reasons, and takes each, which takes so long.
    async fn put_and_take(
        &self,
        queue: &DistributedQueue<RawBytes>,
        producer: &Producer<RawBytes>,
        may_fail: &[ErrorKind],
        pause: Duration,
        done: &Cell<u64>,
    ) -> Put {
        let all_put_at = Cell::new(None);
        let put = async {
            let put = self.put_small(producer, may_fail, done).await;
            all_put_at.set(Some(Instant::now()));
            put
        };
        let take = async {
            let (consumer, mut taken) = (queue.consumer(), HashSet::new());
            let goes_on = async || match all_put_at.get() {
                None => true,
                Some(at) => at.elapsed() < SOON && queue.len().await.ok() != Some(0),
            };
            while goes_on().await {
                let delivery = tokio::time::timeout(Duration::from_secs(1), consumer.take()).await;
                let Ok(Ok(delivery)) = delivery else { continue };
                taken.insert(delivery.item().clone());
                sleep(pause).await;
                // If that is interrupted, the item may come once more.
                let _ = delivery.ack().await;
            }
            taken
        };
        let (put, taken) = join!(put, take);
        put.check(&taken);
        put
    }

    /// Puts items, of which some may fail for these reasons.
    async fn put_small(&self, producer: &Producer<RawBytes>, may_fail: &[ErrorKind], done: &Cell<u64>) -> Put {
        let mut put = Put::default();
        for number in 0_u32.. {
            if !self.goes_on() {
                break;
            }
            let item = number.to_be_bytes().to_vec();
            match within("a small put ends", SOON, producer.put(item.clone())).await {
                Ok(()) => {
                    put.items.insert(item);
                    count(done);
                }
                Err(error) => {
                    assert!(may_fail.contains(&error.kind()), "{error}");
                    match error.kind() {
                        ErrorKind::OutcomeUnknown => drop(put.unclear.insert(item)),
                        _ => put.refused += 1,
                    }
                }
            }
            sleep(Duration::from_millis(10)).await;
        }
        put
    }

    async fn write(&self, observer: &Observer) {
        for number in 0_u64.. {
            if !self.goes_on() {
                break;
            }
            let path = self.at(&format!("tree/{:04}", number % NODES as u64));
            observer.set_data(&path, &number.to_be_bytes()).await;
        }
    }
}

#[derive(Debug, Default)]
struct Put {
    items: HashSet<Vec<u8>>,
    unclear: HashSet<Vec<u8>>,
    refused: usize,
}

impl Put {
    /// All are taken, and nothing else but what is unclear.
    fn check(&self, taken: &HashSet<Vec<u8>>) {
        let lost: Vec<_> = self.items.difference(taken).collect();
        assert!(lost.is_empty(), "{lost:?} of {taken:?}");
        let known: HashSet<_> = self.items.union(&self.unclear).cloned().collect();
        let invented: Vec<_> = taken.difference(&known).collect();
        assert!(invented.is_empty(), "{invented:?} of {self:?}");
    }
}

async fn fill(client: &Client, path: &str) {
    client.create_containers(path).await.expect("created");
    let create = |number: usize| async move {
        client.create(&format!("{path}/{number:04}"), "", CreateMode::Persistent).await.map(drop)
    };
    try_join_all((0..NODES).map(create)).await.expect("created");
}

async fn limit(observer: &Observer, path: &str) {
    observer.create_all(&format!("/zookeeper/quota{path}")).await;
    let limit = format!("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit={QUOTA}");
    observer.create(&format!("/zookeeper/quota{path}/zookeeper_limits"), limit.as_bytes()).await;
    observer.create(&format!("/zookeeper/quota{path}/zookeeper_stats"), b"count=1,bytes=0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_no_harm_goes_on_beside_what_the_servers_refuse_and_through_cuts() {
    let server = ZooKeeper::builder()
        .jvm_flag(format!("-Djute.maxbuffer={BUFFER}"))
        .jvm_flag("-Dzookeeper.enforceQuota=true")
        .start()
        .await;
    let proxy = Proxy::start(server.addr()).await;
    let observer = Observer::connect(&server.connect_string()).await;
    let client = connect(builder(&proxy.connect_string(), Duration::from_secs(10))).await;
    let path = unique_path("siege");
    fill(&client, &format!("{path}/tree")).await;
    client.create_containers(&format!("{path}/limited")).await.expect("created");
    limit(&observer, &format!("{path}/limited")).await;
    let siege = Siege { client: client.clone(), path, is_over: Cell::new(false), done: Done::default() };

    let watches: Vec<_> = (0..NODES)
        .map(|number| client.watch(&siege.at(&format!("tree/{number:04}")), WatchMode::Persistent).expect("a watch"))
        .collect();
    let tree = siege.at("tree");
    let caches = try_join_all((0..CACHES).map(|_| Cache::tree(&client, tree.as_str()).start())).await.expect("caches");
    let large = PersistentNode::builder(&client, siege.at("large")).data(vec![1; 80_000]).start().expect("a node");
    let small = PersistentNode::builder(&client, siege.at("small")).data("here").start().expect("a node");
    let (queue, limited) = (siege.queue("queue"), siege.queue("limited"));
    let (producer, to_limited) = (queue.producer(), limited.producer());
    let may_fail = [ErrorKind::QuotaExceeded, ErrorKind::OutcomeUnknown];

    let done = &siege.done;
    let ((), (), (), _, put_limited, ()) = join!(
        siege.cut(&proxy),
        siege.lock(),
        siege.put_large(&producer),
        siege.put_and_take(&queue, &producer, &[], Duration::ZERO, &done.put),
        siege.put_and_take(&limited, &to_limited, &may_fail, Duration::from_millis(30), &done.put_limited),
        siege.write(&observer),
    );
    println!("{} connections, {done:?}, {} puts over the quota", proxy.accepted(), put_limited.refused);
    assert!(put_limited.refused > 0, "the quota is not enforced");
    assert!(proxy.accepted() <= 2 * CUTS + 20, "{} connections for {CUTS} cuts", proxy.accepted());

    let is_refused = || large.state().get().error().is_some_and(|error| error.kind() == ErrorKind::InvalidArgument);
    eventually("the large one is refused", SOON, || async { is_refused() }).await;
    eventually("the small one is there", SOON, || async { small.state().get().is_present() }).await;
    assert_eq!(observer.data(&siege.at("small")).await.as_deref(), Some(&b"here"[..]));
    let names = observer.children(&tree).await;
    let expected: HashSet<_> = join_all(names.iter().map(async |name| {
        let path = format!("{tree}/{name}");
        let data = observer.data(&path).await.expect("it is there");
        (path, data)
    }))
    .await
    .into_iter()
    .collect();
    for cache in &caches {
        let snapshot = within("it is synced", SOON, cache.synced()).await.expect("a snapshot");
        let nodes = snapshot.iter().filter(|node| node.path() != tree);
        let seen: HashSet<_> =
            nodes.map(|node| (node.path().to_owned(), node.value().cloned().expect("data"))).collect();
        assert_eq!(seen, expected);
    }
    drop(watches);
}
