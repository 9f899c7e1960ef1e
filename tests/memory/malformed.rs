//! Answers that cannot be decoded, to one request of each kind, while a recipe is used.

use futures::future::BoxFuture;
use zookeeper_recipes::Client;
use zookeeper_recipes::atomic_long::DistributedAtomicLong;
use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::double_barrier::DoubleBarrier;
use zookeeper_recipes::group_member::GroupMember;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::persistent_node::PersistentNode;
use zookeeper_recipes::queue::{DistributedQueue, Utf8};
use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;
use zookeeper_recipes::semaphore::InterProcessSemaphore;
use zookeeper_recipes::service_discovery::{ServiceDiscovery, ServiceInstance};
use zookeeper_recipes::shared_value::SharedValue;
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};

use crate::fixture::{T, within};

type Outcome = Result<(), Box<dyn std::error::Error>>;
type Use = for<'a> fn(&'a Client) -> BoxFuture<'a, Outcome>;

const KINDS: [Operation; 11] = [
    Operation::Create,
    Operation::Delete,
    Operation::Exists,
    Operation::GetData,
    Operation::GetMany,
    Operation::SetData,
    Operation::List,
    Operation::Multi,
    Operation::Sync,
    Operation::AddWatch,
    Operation::RemoveWatch,
];

const USES: [(&str, Use); 13] = [
    ("mutex", |client| {
        Box::pin(async move {
            let mutex = InterProcessMutex::new(client, "/use")?;
            mutex.acquire().await?.release().await?;
            Ok(())
        })
    }),
    ("read", |client| {
        Box::pin(async move {
            let lock = InterProcessReadWriteLock::new(client, "/use")?;
            lock.read().acquire().await?.release().await?;
            Ok(())
        })
    }),
    ("write", |client| {
        Box::pin(async move {
            let lock = InterProcessReadWriteLock::new(client, "/use")?;
            lock.write().acquire().await?.release().await?;
            Ok(())
        })
    }),
    ("semaphore", |client| {
        Box::pin(async move {
            let semaphore = InterProcessSemaphore::new(client, "/use", 2)?;
            semaphore.acquire(2).await?.release().await?;
            Ok(())
        })
    }),
    ("latch", |client| {
        Box::pin(async move {
            let latch = LeaderLatch::builder(client, "/use").start()?;
            drop(latch.wait_for_leadership().await?);
            latch.close().await?;
            Ok(())
        })
    }),
    ("barrier", |client| {
        Box::pin(async move {
            let barrier = DoubleBarrier::new(client, "/use", 1)?;
            barrier.enter().await?;
            barrier.leave().await?;
            Ok(())
        })
    }),
    ("queue", |client| {
        Box::pin(async move {
            let queue = DistributedQueue::builder(client, "/use", Utf8).build()?;
            queue.producer().put("x".to_owned()).await?;
            queue.consumer().take().await?.ack().await?;
            Ok(())
        })
    }),
    ("member", |client| {
        Box::pin(async move {
            let member = GroupMember::join(client, "/use", "me", "").await?;
            member.wait_for(|members| members.len() == 1).await?;
            member.leave().await?;
            Ok(())
        })
    }),
    ("service", |client| {
        Box::pin(async move {
            let discovery = ServiceDiscovery::<()>::new(client, "/use")?;
            let instance = ServiceInstance::builder("api").id("a").build()?;
            let registration = discovery.register(instance).await?;
            let service = discovery.service("api").start().await?;
            service.wait_for(1).await?;
            registration.set_enabled(false).await?;
            discovery.names().await?;
            registration.unregister().await?;
            Ok(())
        })
    }),
    ("node", |client| {
        Box::pin(async move {
            let node = PersistentNode::builder(client, "/use").start()?;
            node.created().await?;
            node.set_data("new").await?;
            node.close().await?;
            Ok(())
        })
    }),
    ("value", |client| {
        Box::pin(async move {
            let value = SharedValue::<Vec<u8>>::builder(client, "/use").seed("a").start().await?;
            value.set("b").await?;
            value.synced().await?;
            Ok(())
        })
    }),
    ("long", |client| {
        Box::pin(async move {
            let long = DistributedAtomicLong::new(client, "/use")?;
            long.increment().await?;
            Ok(())
        })
    }),
    ("cache", |client| {
        Box::pin(async move {
            let cache = Cache::tree(client, "/use").start().await?;
            cache.synced().await?;
            Ok(())
        })
    }),
];

/// What a client has at the servers.
fn held(server: &TestingServer) -> Vec<String> {
    let is_ephemeral = |path: &String| server.stat(path).is_some_and(|stat| stat.ephemeral_owner != 0);
    server.paths().into_iter().filter(is_ephemeral).collect()
}

/// A use succeeds all the same, or says what it could not read. The next one succeeds, and nothing is left of either.
#[tokio::test(start_paused = true)]
async fn a_reply_that_cannot_be_decoded_costs_one_use_at_most() {
    let (mut cases, mut failed) = (0, 0);
    for (name, use_once) in USES {
        for of in KINDS {
            let server = TestingServer::start();
            let client = Client::builder_for_testing(&server).session_timeout(T).connect().await.unwrap();
            server.lose_next_reply(&client, of, Loss::Malformed);
            let first = within("the first use ends", T * 3, use_once(&client)).await;
            if server.lost_replies() == 0 {
                // It has no such request.
                continue;
            }
            if let Err(error) = first {
                assert!(error.to_string().contains("its answer cannot be read"), "{name}, {of:?}: {error}");
                failed += 1;
            }
            let second = within("the second use ends", T * 3, use_once(&client)).await;
            assert!(second.is_ok(), "{name}, {of:?}: {second:?}");
            server.until(|| held(&server).is_empty() && server.watches() == 0).await;
            assert_eq!(server.count(&client, Operation::Close), 0);
            cases += 1;
        }
    }
    assert!(cases > 50 && failed > 10, "{cases} cases, of which {failed} failed");
}
