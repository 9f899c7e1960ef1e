//! Pins which public types and futures are `Send`, `Sync` and `Unpin`: losing one breaks users, and nothing else tells.

use std::future::Future;

use zookeeper_recipes::barrier::{Barrier, BarrierBuilder, Error as BarrierError};
use zookeeper_recipes::double_barrier::{DoubleBarrier, DoubleBarrierBuilder, Error as DoubleBarrierError};
use zookeeper_recipes::leader_latch::{
    BoxLeaderLatchListener, CloseMode, Error as LatchError, LatchState, LatchStatus, LeaderLatch, LeaderLatchBuilder,
    LeaderStream, Leadership, LeadershipLost, Participant,
};
use zookeeper_recipes::leader_selector::{
    BoxLeaderSelectorListener, Error as SelectorError, LeaderSelector, LeaderSelectorBuilder, Outcome, Outcomes,
    RequeuePolicy, RunningTerm, SelectorState, SelectorStatus, TermEnd,
};
#[cfg(feature = "limiter")]
use zookeeper_recipes::limiter::{Error as LimiterError, ShareLimiter};
use zookeeper_recipes::multi_lock::{Error as MultiLockError, InterProcessMultiLock, Lock, MultiLockGuard};
use zookeeper_recipes::mutex::{
    Error as MutexError, InterProcessMutex, InterProcessMutexBuilder, LockLost, MutexGuard, revoke,
};
use zookeeper_recipes::persistent_node::{
    Error as NodeError, NodeMode, NodeState, PersistentNode, PersistentNodeBuilder,
};
use zookeeper_recipes::queue::{
    ClaimHandle, ClaimLost, Consumer, DeadLetter, Deliveries, Delivery, DistributedQueue, DistributedQueueBuilder,
    Enqueued, Error as QueueError, Event, Events, Failure, Producer, Utf8,
};
use zookeeper_recipes::read_write_lock::{
    Error as ReadWriteError, InterProcessReadWriteLock, InterProcessReadWriteLockBuilder, ReadGuard, ReadLock,
    WriteGuard, WriteLock,
};
use zookeeper_recipes::semaphore::{
    Error as SemaphoreError, InterProcessSemaphore, InterProcessSemaphoreBuilder, SemaphoreGuard,
};
use zookeeper_recipes::{
    Acl, BoxConnectionStateListener, Client, ClientBuilder, ConnectionState, ConnectionStates, CreateMode, Error,
    Fence, ListenerHandle, RequestCounts, RetryPolicy, Stat, Transaction, WatchEvents,
};

fn send_sync_unpin<T: Send + Sync + Unpin>() {}
fn send_unpin<T: Send + Unpin>() {}
fn send_future<F: Future + Send>(_: F) {}

#[test]
fn handles_and_values_can_be_shared_between_tasks() {
    send_sync_unpin::<Client>();
    send_sync_unpin::<ClientBuilder>();
    send_sync_unpin::<ConnectionState>();
    send_sync_unpin::<Error>();
    send_sync_unpin::<Fence>();
    send_sync_unpin::<ListenerHandle>();
    send_sync_unpin::<BoxConnectionStateListener>();
    send_sync_unpin::<BoxLeaderLatchListener>();
    send_sync_unpin::<BoxLeaderSelectorListener>();
    send_sync_unpin::<RequestCounts>();
    send_sync_unpin::<RetryPolicy>();
    send_sync_unpin::<Stat>();
    send_sync_unpin::<Transaction>();
    send_sync_unpin::<Acl>();
    send_sync_unpin::<LeaderLatch>();
    send_sync_unpin::<LeaderLatchBuilder>();
    send_sync_unpin::<LatchState>();
    send_sync_unpin::<LatchStatus>();
    send_sync_unpin::<LatchError>();
    send_sync_unpin::<Leadership>();
    send_sync_unpin::<LeadershipLost>();
    send_sync_unpin::<Participant>();
    send_sync_unpin::<CloseMode>();
    send_sync_unpin::<LeaderSelector>();
    send_sync_unpin::<LeaderSelectorBuilder>();
    send_sync_unpin::<RequeuePolicy>();
    send_sync_unpin::<SelectorState>();
    send_sync_unpin::<SelectorStatus>();
    send_sync_unpin::<SelectorError>();
    send_sync_unpin::<RunningTerm>();
    send_sync_unpin::<Outcome>();
    send_sync_unpin::<TermEnd>();
    send_sync_unpin::<InterProcessMutex>();
    send_sync_unpin::<InterProcessMutexBuilder>();
    send_sync_unpin::<MutexGuard>();
    send_sync_unpin::<InterProcessReadWriteLock>();
    send_sync_unpin::<InterProcessReadWriteLockBuilder>();
    send_sync_unpin::<(ReadLock, WriteLock)>();
    send_sync_unpin::<(ReadGuard, WriteGuard)>();
    send_sync_unpin::<ReadWriteError>();
    send_sync_unpin::<(InterProcessMultiLock, Lock)>();
    send_sync_unpin::<MultiLockGuard>();
    send_sync_unpin::<MultiLockError>();
    send_sync_unpin::<(InterProcessSemaphore, InterProcessSemaphoreBuilder)>();
    send_sync_unpin::<SemaphoreGuard>();
    send_sync_unpin::<SemaphoreError>();
    send_sync_unpin::<MutexError>();
    send_sync_unpin::<LockLost>();
    send_sync_unpin::<DoubleBarrier>();
    send_sync_unpin::<DoubleBarrierBuilder>();
    send_sync_unpin::<DoubleBarrierError>();
    send_sync_unpin::<Barrier>();
    send_sync_unpin::<BarrierBuilder>();
    send_sync_unpin::<BarrierError>();
    send_sync_unpin::<PersistentNode>();
    send_sync_unpin::<PersistentNodeBuilder>();
    send_sync_unpin::<NodeMode>();
    send_sync_unpin::<NodeState>();
    send_sync_unpin::<NodeError>();
    send_sync_unpin::<DistributedQueue<Utf8>>();
    send_sync_unpin::<DistributedQueueBuilder<Utf8>>();
    send_sync_unpin::<Producer<Utf8>>();
    send_sync_unpin::<Consumer<Utf8>>();
    send_sync_unpin::<Delivery<String>>();
    send_sync_unpin::<ClaimHandle>();
    send_sync_unpin::<ClaimLost>();
    send_sync_unpin::<DeadLetter>();
    send_sync_unpin::<Event>();
    send_sync_unpin::<Failure>();
    send_sync_unpin::<Enqueued>();
    send_sync_unpin::<QueueError>();
    send_unpin::<Deliveries<Utf8>>();
    send_unpin::<Events>();
    send_sync_unpin::<zookeeper_recipes::throughput_balancer::ThroughputBalancer>();
    send_sync_unpin::<zookeeper_recipes::throughput_balancer::ThroughputBalancerBuilder>();
    send_sync_unpin::<zookeeper_recipes::throughput_balancer::Share>();
    send_sync_unpin::<zookeeper_recipes::throughput_balancer::BoxShareListener>();
    send_sync_unpin::<zookeeper_recipes::throughput_balancer::Error>();
    send_unpin::<zookeeper_recipes::throughput_balancer::Shares>();
    send_unpin::<zookeeper_recipes::throughput_balancer::Events>();
    send_unpin::<ConnectionStates>();
    send_unpin::<WatchEvents>();
    send_unpin::<Outcomes>();
    send_unpin::<LeaderStream>();
}

#[cfg(feature = "throughput-balancer")]
#[test]
fn a_division_can_be_computed_anywhere() {
    use zookeeper_recipes::throughput_balancer::allocation::{
        Allocation, AllocationError, Division, Member, Shortfall,
    };
    send_sync_unpin::<Allocation>();
    send_sync_unpin::<AllocationError>();
    send_sync_unpin::<Division>();
    send_sync_unpin::<Member>();
    send_sync_unpin::<Shortfall>();
}

#[cfg(feature = "limiter")]
#[test]
fn a_limiter_can_be_shared_between_tasks() {
    send_sync_unpin::<ShareLimiter>();
    send_sync_unpin::<LimiterError>();
    send_future(ShareLimiter::new(1).acquire(1));
}

/// Compiled, never called: the futures need a server to run, not to be checked.
#[allow(dead_code)]
fn every_public_future_is_send(client: &Client, latch: &LeaderLatch, leadership: &Leadership) {
    send_future(Client::builder("host").connect());
    send_future(client.get("/a"));
    send_future(client.exists("/a"));
    send_future(client.children("/a"));
    send_future(client.set("/a", b"", None));
    send_future(client.create("/a", b"", CreateMode::Ephemeral));
    send_future(client.create_containers("/a"));
    send_future(client.delete("/a", None));
    send_future(client.transaction().commit());
    send_future(client.close());
    send_future(latch.wait_for_leadership());
    send_future(latch.leader());
    send_future(latch.participants());
    send_future(latch.close());
    send_future(latch.close_with(CloseMode::NotifyLeader));
    send_future(leadership.lost());
    send_future(leadership.run(async {}));
}

/// As above.
#[allow(dead_code)]
fn every_public_future_of_selector_and_mutex_is_send(
    client: &Client,
    selector: &LeaderSelector,
    mutex: &InterProcessMutex,
    guard: &MutexGuard,
    released: MutexGuard,
) {
    send_future(selector.leader());
    send_future(selector.participants());
    send_future(selector.close());
    send_future(selector.close_with(RunningTerm::Interrupt));
    send_future(mutex.acquire());
    send_future(mutex.acquire_timeout(std::time::Duration::MAX));
    send_future(mutex.try_acquire());
    send_future(mutex.participants());
    send_future(guard.lost());
    send_future(guard.run(async {}));
    send_future(guard.on_revoke());
    send_future(released.release());
    send_future(revoke(client, "/a"));
}

#[allow(dead_code)]
fn every_public_future_of_a_persistent_node_is_send(node: &PersistentNode) {
    send_future(node.created());
    send_future(node.set_data(""));
    send_future(node.close());
}

/// As above.
#[allow(dead_code)]
fn every_public_future_of_the_read_write_lock_is_send(
    lock: &InterProcessReadWriteLock,
    (read, write): &(ReadLock, WriteLock),
    (reader, writer): &(ReadGuard, WriteGuard),
    (one, two, three): (ReadGuard, WriteGuard, WriteGuard),
) {
    send_future(lock.participants());
    send_future(read.acquire());
    send_future(read.acquire_timeout(std::time::Duration::MAX));
    send_future(read.try_acquire());
    send_future(write.acquire());
    send_future(reader.lost());
    send_future(reader.run(async {}));
    send_future(reader.on_revoke());
    send_future(writer.run(async {}));
    send_future(one.release());
    send_future(two.release());
    send_future(three.downgrade());
}

/// As above.
#[allow(dead_code)]
fn every_public_future_of_the_multi_lock_is_send(
    locks: &InterProcessMultiLock,
    guard: &MultiLockGuard,
    released: MultiLockGuard,
) {
    send_future(locks.acquire());
    send_future(locks.acquire_timeout(std::time::Duration::MAX));
    send_future(locks.try_acquire());
    send_future(guard.lost());
    send_future(guard.run(async {}));
    send_future(guard.on_revoke());
    send_future(released.release());
}

/// As above.
#[allow(dead_code)]
fn every_public_future_of_the_semaphore_is_send(
    semaphore: &InterProcessSemaphore,
    guard: &SemaphoreGuard,
    released: SemaphoreGuard,
) {
    send_future(semaphore.acquire(1));
    send_future(semaphore.acquire_timeout(1, std::time::Duration::MAX));
    send_future(semaphore.try_acquire(1));
    send_future(semaphore.participants());
    send_future(guard.lost());
    send_future(guard.run(async {}));
    send_future(released.release());
}

/// As above.
#[allow(dead_code)]
fn every_public_future_of_the_barriers_is_send(double: &DoubleBarrier, single: &Barrier) {
    send_future(double.enter());
    send_future(double.enter_timeout(std::time::Duration::MAX));
    send_future(double.leave());
    send_future(double.leave_timeout(std::time::Duration::MAX));
    send_future(single.set());
    send_future(single.remove());
    send_future(single.wait());
    send_future(single.wait_timeout(std::time::Duration::MAX));
}

#[allow(dead_code)]
fn every_public_future_of_the_queue_is_send(
    queue: &DistributedQueue<Utf8>,
    producer: &Producer<Utf8>,
    consumer: &Consumer<Utf8>,
    delivery: impl Fn() -> Delivery<String> + Send + Copy,
    letter: &DeadLetter,
) {
    send_future(queue.len());
    send_future(queue.peek());
    send_future(queue.dead_letters());
    send_future(queue.retry(letter));
    send_future(queue.drop(letter));
    send_future(queue.remove("a"));
    send_future(producer.put("a"));
    send_future(producer.put_after("a", std::time::Duration::ZERO));
    send_future(producer.put_at("a", std::time::UNIX_EPOCH));
    send_future(producer.put_many(["a"]));
    send_future(producer.put_timeout("a", std::time::Duration::MAX));
    send_future(producer.enqueue("a"));
    send_future(producer.flush());
    send_future(producer.close());
    send_future(consumer.take());
    send_future(consumer.close());
    send_future(consumer.consume(4, |_: String, _: ClaimHandle| async { Ok::<(), std::io::Error>(()) }));
    send_future(delivery().ack());
    send_future(delivery().nack());
    send_future(delivery().nack_after(std::time::Duration::ZERO));
    send_future(delivery().reject("a"));
    send_future(async move { delivery().lost().await });
}

/// As above: items that are borrowed, from within a future that is spawned.
#[allow(dead_code)]
fn puts_of_borrowed_items_are_send(producer: Producer<Utf8>) {
    send_future(async move {
        let orders = vec![(1, "a".to_owned())];
        producer.put_many(orders.iter().map(|(_, order)| order)).await?;
        producer.put_many(orders.iter().map(|(_, order)| order.as_str())).await?;
        for (_, order) in &orders {
            producer.put(order).await?;
            producer.put(std::borrow::Cow::from(order)).await?;
            producer.put_timeout(order.as_str(), std::time::Duration::MAX).await?;
            producer.enqueue(order).await?.await?;
        }
        Ok::<(), QueueError>(())
    });
}

/// As above.
#[allow(dead_code)]
fn every_public_future_of_the_balancer_is_send(
    client: &Client,
    balancer: &zookeeper_recipes::throughput_balancer::ThroughputBalancer,
) {
    use zookeeper_recipes::throughput_balancer::{ThroughputBalancer, set_max_throughput};
    send_future(ThroughputBalancer::builder(client, "/a").join());
    send_future(balancer.members());
    send_future(balancer.set_max_throughput(1));
    send_future(balancer.leave());
    send_future(set_max_throughput(client, "/a", 1));
}

#[cfg(all(feature = "atomic-long", feature = "shared-value"))]
mod values {
    use zookeeper_recipes::atomic_long::{Added, DistributedAtomicLong, DistributedAtomicLongBuilder, Error};
    use zookeeper_recipes::shared_value::{
        Changes, Error as ValueError, SharedCount, SharedValue, SharedValueBuilder, Utf8, Versioned,
    };

    use super::{send_future, send_sync_unpin, send_unpin};

    #[test]
    fn numbers_and_values_can_be_shared_between_tasks() {
        send_sync_unpin::<(Added, DistributedAtomicLong, DistributedAtomicLongBuilder, Error)>();
        send_sync_unpin::<(SharedCount, SharedValue<String>, SharedValueBuilder<Utf8>)>();
        send_sync_unpin::<(Versioned<String>, ValueError)>();
        send_unpin::<Changes<String>>();
    }

    /// As above.
    #[allow(dead_code)]
    fn every_public_future_is_send(
        number: &DistributedAtomicLong,
        value: &SharedValue<String>,
        starting: SharedValueBuilder<Utf8>,
        mut changes: Changes<String>,
        expected: &Versioned<String>,
    ) {
        send_future(number.get());
        send_future(number.add(1));
        send_future(number.increment());
        send_future(number.decrement());
        send_future(number.compare_and_set(1, 2));
        send_future(number.initialize(1));
        send_future(number.set(1));
        send_future(starting.start());
        send_future(value.synced());
        send_future(value.wait_for(|_| true));
        send_future(value.set("a"));
        send_future(value.compare_and_set(expected, "a"));
        send_future(value.update(|_| None));
        send_future(changes.next());
    }
}

#[cfg(feature = "inspect")]
#[allow(dead_code)]
fn every_public_future_of_inspect_is_send(client: &Client) {
    use zookeeper_recipes::inspect::{
        BalancerMember, Deadlock, Deadlocks, DoubleBarrier, Entry, Group, Line, Lines, Node, NodeStat, Owner, Place,
        Queue, Recipe, Role, Semaphore, ThroughputBalancer, Tree, Wait, deadlocks, line, lines, tree,
    };
    send_future(line(client, "/"));
    send_future(lines(client, "/"));
    send_future(deadlocks(client, "/"));
    send_future(tree(client, "/"));
    send_sync_unpin::<(Deadlock, Deadlocks, Line, Lines, Owner, Place, Role, Wait)>();
    send_sync_unpin::<(Tree, Node, NodeStat, Recipe, Entry, Semaphore, DoubleBarrier, Queue, Group)>();
    send_sync_unpin::<(ThroughputBalancer, BalancerMember)>();
}
