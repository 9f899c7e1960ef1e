//! A directory whose counter of sequential nodes is nearly used up, on a real server. No client can set the counter,
//! but a transaction log can: the server starts with one that says how far the counter is.

use std::time::Duration;

use futures::future::join_all;
use testcontainers::core::IntoContainerPort;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};
use zookeeper_recipes::leader_latch::LeaderLatch;

use super::fixture::{SOON, builder, connect, latch, leads, leads_in_the_end, line_of, name_of, reaches, waits};
use crate::support::container::free_port;
use crate::support::runtime::{on_rig, on_rig_blocking};
use crate::support::{Observer, docker, eventually, four_letter, leftovers};

/// The counter of the directory at the start.
const COUNTER: i32 = i32::MAX - 4;
const DIR: &str = "/line";
/// The child whose creation brought the counter there.
const CHILD: &str = "/line/filler";

fn text(bytes: &mut Vec<u8>, text: &str) {
    let length = i32::try_from(text.len()).expect("a short text");
    bytes.extend(length.to_be_bytes());
    bytes.extend(text.as_bytes());
}

/// One entry of a transaction log: a persistent node without data and with an open ACL.
fn create(zxid: i64, path: &str, counter_of_parent: i32) -> Vec<u8> {
    const CREATE: i32 = 1;
    let mut entry = Vec::new();
    for number in [0_i64.to_be_bytes().as_slice(), &0_i32.to_be_bytes()] {
        entry.extend(number); // session, request
    }
    entry.extend(zxid.to_be_bytes());
    entry.extend(0_i64.to_be_bytes()); // time
    entry.extend(CREATE.to_be_bytes());
    text(&mut entry, path);
    text(&mut entry, ""); // data
    entry.extend(1_i32.to_be_bytes()); // one entry of the ACL
    entry.extend(31_i32.to_be_bytes());
    text(&mut entry, "world");
    text(&mut entry, "anyone");
    entry.push(0); // not ephemeral
    entry.extend(counter_of_parent.to_be_bytes());
    entry
}

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}

fn transaction_log() -> Vec<u8> {
    let mut log = b"ZKLG".to_vec();
    log.extend(2_i32.to_be_bytes()); // version
    log.extend(0_i64.to_be_bytes()); // database
    for entry in [create(1, DIR, 1), create(2, CHILD, COUNTER)] {
        log.extend(i64::from(adler32(&entry)).to_be_bytes());
        log.extend(i32::try_from(entry.len()).expect("a short entry").to_be_bytes());
        log.extend(entry);
        log.push(b'B');
    }
    log
}

/// A server that starts with the log; removed on drop.
struct Server {
    container: Option<ContainerAsync<GenericImage>>,
    connect_string: String,
}

impl Server {
    async fn start() -> Server {
        let port = free_port();
        let container = on_rig(async move {
            let (name, tag) = docker::image().await;
            let request = GenericImage::new(name, tag)
                .with_mapped_port(port, 2181.tcp())
                .with_labels(leftovers::labels())
                .with_env_var("ZOO_4LW_COMMANDS_WHITELIST", "*")
                .with_env_var("ZOO_ADMINSERVER_ENABLED", "false")
                .with_env_var("ZOO_TICK_TIME", "500")
                // A log without a snapshot is an accident otherwise.
                .with_env_var("JVMFLAGS", "-Dzookeeper.snapshot.trust.empty=true")
                .with_copy_to("/datalog/version-2/log.1", transaction_log());
            request.start().await
        });
        let container = container.await.expect("the container starts");
        let addr = ([127, 0, 0, 1], port).into();
        let server = Server { container: Some(container), connect_string: format!("127.0.0.1:{port}") };
        eventually("the server serves", Duration::from_secs(60), || async { four_letter::mode(addr).await.is_some() })
            .await;
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(container) = self.container.take() {
            let removal = async move {
                let _ = container.rm().await;
            };
            on_rig_blocking(removal, Duration::from_secs(30));
        }
    }
}

/// Closes the leader until no participant is left; each time exactly the next one leads.
async fn close_one_after_the_other(mut line: Vec<LeaderLatch>) {
    while !line.is_empty() {
        leads(&line[0]).await;
        let lead: Vec<_> = line.iter().filter(|latch| latch.has_leadership()).collect();
        assert_eq!(lead.len(), 1, "{lead:?}");
        line.remove(0).close().await.expect("closed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_keeps_its_order_past_the_end_of_the_counter_and_a_new_directory_counts_from_zero() {
    let server = Server::start().await;
    let observer = Observer::connect(&server.connect_string).await;
    let client = connect(builder(&server.connect_string, Duration::from_secs(10))).await;

    // One after the other: the last ordinary numbers, then the greatest one again and again.
    let mut line = Vec::new();
    let mut numbers = Vec::new();
    for number in 0..8 {
        let next = latch(&client, DIR, &number.to_string());
        if number == 0 {
            leads(&next).await;
        } else {
            waits(&next).await;
        }
        let path = next.our_path().expect("it has a node");
        numbers.push(name_of(&path).rsplit_once("latch-").expect("a latch").1.to_owned());
        line.push(next);
    }
    println!("numbers: {numbers:?}");
    assert_eq!(numbers[0], COUNTER.to_string());
    assert_eq!(numbers[7], i32::MAX.to_string());
    assert_eq!(numbers[6], numbers[7], "the counter sticks");
    let ids: Vec<_> = (0..8).map(|number| number.to_string()).collect();
    assert_eq!(line_of(&line[7]).await, ids);
    close_one_after_the_other(line).await;

    // All at once: within one burst the server gives out negative numbers.
    let burst: Vec<_> = (0..8).map(|number| latch(&client, DIR, &format!("burst {number}"))).collect();
    eventually("all have joined", SOON, || async { burst.iter().all(|latch| latch.our_path().is_some()) }).await;
    let leader = burst[0].leader().await.expect("read").expect("there is a leader");
    let names = observer.children(DIR).await;
    println!("names after a burst: {names:?}");
    let order = line_of(&burst[0]).await;
    let mut burst: Vec<_> = burst.into_iter().map(|latch| (latch.id().to_owned(), latch)).collect();
    burst.sort_by_key(|(id, _)| order.iter().position(|other| other == id));
    assert_eq!(burst[0].0, leader.id);
    let mut elders = Vec::new();
    for (_, latch) in &burst {
        let path = latch.our_path().expect("it has a node");
        elders.push(observer.stat(&path).await.expect("the node exists").czxid);
    }
    assert!(elders.is_sorted(), "in the order of their creation: {elders:?}");
    let (last, before) = burst.split_last().expect("eight");
    join_all(before.iter().map(|(_, latch)| latch.close())).await;
    leads_in_the_end(&last.1).await;

    // Empty but for the last one. The directory is not this client's, so it stays; whose it is deletes it, and it
    // counts from zero.
    observer.delete(CHILD).await;
    let (_, last) = burst.pop().expect("eight");
    last.close().await.expect("closed");
    assert!(observer.exists(DIR).await);
    observer.delete(DIR).await;
    let fresh = latch(&client, DIR, "fresh");
    leads(&fresh).await;
    reaches(&fresh, zookeeper_recipes::leader_latch::LatchStatus::Leading).await;
    let path = fresh.our_path().expect("it has a node");
    assert!(path.ends_with("latch-0000000000"), "{path}");
}
