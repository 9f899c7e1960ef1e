//! A queue of persistent sequential nodes.

use std::time::Instant;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::iter;
use zookeeper as zk;

use super::{Column, connect, timed};
use crate::bare::queue::clearing;
use crate::items::{self, HOLDER, IN_HAND, ITEM, Put, TRANSACTION};

#[derive(Clone)]
struct Queue {
    client: zk::Client,
    dir: String,
}

impl Queue {
    async fn connect(addr: &str, dir: &str) -> Queue {
        let client = connect(addr).await;
        let lasting = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
        for beside in [format!("{dir}-claims"), items::producer(dir)] {
            match client.create(&beside, b"", &lasting).await {
                Ok(_) | Err(zk::Error::NodeExists) => {}
                Err(error) => panic!("{beside}: {error}"),
            }
        }
        Queue { client, dir: dir.to_owned() }
    }

    fn item(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    async fn put(&self, put: Put) {
        match put {
            Put::Create => drop(self.client.create(&self.item("queue-"), ITEM, &sequential()).await.expect("put")),
            Put::Transaction => self.put_at_once(1).await,
        }
    }

    /// Puts many items in a transaction, as ours does.
    async fn put_at_once(&self, items: usize) {
        let (prefix, mode, producer) = (self.item("queue-"), sequential(), items::producer(&self.dir));
        let (prefix, mode, producer) = (&prefix, &mode, &producer);
        let puts = iter(items::transactions(items)).map(|size| async move {
            let mut transaction = self.client.new_multi_writer();
            transaction.add_set_data(producer, b"0", None).expect("a good path");
            for _ in 0..size {
                transaction.add_create(prefix, ITEM, mode).expect("a good path");
            }
            transaction.commit().await.expect("put");
        });
        puts.buffer_unordered(TRANSACTION.1).collect::<()>().await;
    }

    async fn names(&self) -> Vec<String> {
        let (mut names, _) = self.client.get_children(&self.dir).await.expect("listed");
        names.sort_unstable();
        names
    }

    /// Sends three requests for each item: read, claim, acknowledge.
    async fn take(self, names: Vec<String>) {
        let mode = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
        let (queue, mode) = (&self, &mode);
        let takes = iter(names).map(|name| async move {
            let (item, claim) = (queue.item(&name), items::claim(&queue.dir, &name));
            let (data, stat) = queue.client.get_data(&item).await.expect("read");
            let mut claiming = queue.client.new_multi_writer();
            claiming.add_create(&claim, HOLDER, mode).expect("a good path");
            claiming.add_set_data(&claim, HOLDER, Some(0)).expect("a good path");
            claiming.add_set_data(&item, &data, Some(stat.version)).expect("a good path");
            claiming.commit().await.expect("claimed");
            let mut ack = queue.client.new_multi_writer();
            ack.add_delete(&item, Some(stat.version + 1)).expect("a good path");
            ack.add_delete(&claim, Some(1)).expect("a good path");
            ack.commit().await.expect("acknowledged");
        });
        takes.buffer_unordered(IN_HAND).collect::<()>().await;
    }
}

fn sequential() -> zk::CreateOptions<'static> {
    zk::CreateMode::PersistentSequential.with_acls(zk::Acls::anyone_all())
}

pub(crate) fn put_one_at_a_time(addr: &str, dir: &str, items: usize, put: Put) -> Column {
    let round = move |queue: Queue| async move { timed(items as u64, || queue.put(put)).await };
    let column = Column::on_tokio(Queue::connect(addr, dir), round);
    column.afterwards(clearing(addr, dir))
}

pub(crate) fn put_at_once(addr: &str, dir: &str, items: usize) -> Column {
    let column = Column::on_tokio(Queue::connect(addr, dir), move |queue| async move {
        let begun = Instant::now();
        queue.put_at_once(items).await;
        vec![begun.elapsed() / items as u32]
    });
    column.afterwards(clearing(addr, dir))
}

/// Divides the items among the consumers.
pub(crate) fn put_and_take(addr: &str, dir: &str, items: usize, consumers: usize) -> Column {
    let queues = join_all((0..consumers).map(|_| Queue::connect(addr, dir)));
    Column::on_tokio(queues, move |queues| async move {
        let begun = Instant::now();
        queues[0].put_at_once(items).await;
        let names = queues[0].names().await;
        let work = queues
            .into_iter()
            .enumerate()
            .map(|(nth, queue)| tokio::spawn(queue.take(names.iter().skip(nth).step_by(consumers).cloned().collect())));
        join_all(work).await.into_iter().for_each(|done| done.expect("no panic"));
        vec![begun.elapsed() / items as u32]
    })
}
