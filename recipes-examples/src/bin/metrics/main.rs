//! What clients and recipes do, as numbers for Prometheus.
//!
//! It plays a scenario and ends: workers share a lock, one of them leads, and they handle orders from a queue. Then it
//! reads its own metrics as Prometheus does. `--serve` goes on until it is asked to end, `--dashboard` prints a
//! dashboard for Grafana.

mod dashboard;
mod exporter;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures::future::try_join_all;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, until};
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::queue::{DistributedQueue, Utf8};

use self::exporter::{Exporter, Scrape};

/// What clients and recipes do, as numbers for Prometheus.
#[derive(Parser, Debug)]
#[command(name = "metrics")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of everything that the workers share
    #[arg(long, default_value = "/examples/metrics", value_parser = recipes_examples::path)]
    path: String,
    /// Where the metrics are served; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: std::net::SocketAddr,
    /// Go on until Ctrl-C
    #[arg(long)]
    serve: bool,
    /// Print a dashboard for Grafana, and end
    #[arg(long)]
    dashboard: bool,
}

const USES: [(&str, &str); 5] = [
    ("/leader", "the election of the leader"),
    ("/lock", "the lock"),
    ("/orders", "the queue"),
    ("/orders-claims", "which order is handled, with -producers beside it"),
    ("/orders-dead", "the orders that no worker can handle"),
];

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        Znodes { path: &self.path, shared_by: None, uses: &USES }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    if options.dashboard {
        std::println!("{:#}", dashboard::dashboard());
        return Ok(());
    }
    // Installed before the first client connects: metrics that are registered earlier are lost.
    let exporter = Exporter::install(options.listen)?;
    println!("Prometheus can read http://{}/metrics\n", exporter.address());
    let stage = Stage::new(&options.ensemble);
    let path = stage.own_path(&options.path);
    stage.play(rounds(&stage, &path, &exporter, options.serve)).await
}

const WORKERS: usize = 3;
const SECTIONS: usize = 5;
/// How long a worker holds the lock at a time.
const SECTION: Duration = Duration::from_millis(20);
const ORDERS: usize = 12;

/// Plays one round, or one after the other for ever.
async fn rounds(stage: &Stage, path: &str, exporter: &Exporter, for_ever: bool) -> Result<()> {
    println!("{WORKERS} workers share a lock, an election and a queue at {path}, on {stage}");
    let clients = try_join_all((0..WORKERS).map(|_| stage.connect())).await?;
    loop {
        round(stage, path, &clients).await?;
        tell(&exporter.read().await?);
        if !for_ever {
            return Ok(());
        }
    }
}

/// Plays one round of the workers.
async fn round(stage: &Stage, path: &str, clients: &[Client]) -> Result<()> {
    let latch = LeaderLatch::builder(&clients[0], format!("{path}/leader")).start()?;
    let leadership = until(latch.wait_for_leadership()).await??;
    put_orders(&clients[0], path).await?;
    let workers = clients.iter().map(|client| async move {
        take_the_lock(client, path).await?;
        handle_orders(client, path).await
    });
    let handled = until(try_join_all(workers)).await??;
    if let Some(server) = stage.embedded() {
        println!("the connection of the leader is lost for a moment");
        server.disconnect(&clients[0]);
        until(leadership.lost()).await?;
        until(latch.wait_for_leadership()).await??;
    }
    latch.close().await?;
    println!("they have handled {} orders\n", handled.iter().sum::<usize>());
    Ok(())
}

async fn put_orders(client: &Client, path: &str) -> Result<()> {
    let queue = DistributedQueue::builder(client, format!("{path}/orders"), Utf8).build()?;
    let producer = queue.producer();
    for order in 1..=ORDERS {
        producer.put(format!("order {order}")).await?;
    }
    producer.close().await?;
    Ok(())
}

async fn take_the_lock(client: &Client, path: &str) -> Result<()> {
    let mutex = InterProcessMutex::new(client, &*format!("{path}/lock"))?;
    for _ in 0..SECTIONS {
        let guard = mutex.acquire().await?;
        guard.run(tokio::time::sleep(SECTION)).await?;
        guard.release().await?;
    }
    Ok(())
}

/// Handles a third of the orders. Returns how many could be handled: one of all the orders cannot.
async fn handle_orders(client: &Client, path: &str) -> Result<usize> {
    let queue = DistributedQueue::builder(client, format!("{path}/orders"), Utf8).build()?;
    let consumer = queue.consumer();
    let mut handled = 0;
    for _ in 0..ORDERS / WORKERS {
        let delivery = consumer.take().await?;
        if delivery.item() == "order 7" {
            delivery.reject("it has no address").await?;
        } else {
            delivery.ack().await?;
            handled += 1;
        }
    }
    consumer.close().await;
    Ok(handled)
}

/// Prints what an operator may want to know, from the numbers that Prometheus reads.
fn tell(scrape: &Scrape) {
    let average = |name: &str, labels: &[&str]| {
        let [sum, count] = ["sum", "count"].map(|part| scrape.value(&format!("{name}_{part}"), labels));
        format!("{:.1} ms", 1000.0 * sum / count.max(1.0))
    };
    let acquired = ["outcome=\"acquired\""];
    let outcome = |outcome: &str| scrape.value("queue_delivery_seconds_count", &[&format!("outcome={outcome:?}")]);
    println!("clients connected:    {}", scrape.value("clients", &["state=\"connected\""]));
    println!(
        "requests:             {}, {} on average",
        scrape.value("request_duration_seconds_count", &[]),
        average("request_duration_seconds", &[])
    );
    println!("waited for the lock:  {} on average", average("lock_wait_seconds", &acquired));
    println!("held the lock for:    {} on average", average("lock_hold_seconds", &[]));
    println!("terms of a leader:    {}", scrape.value("leader_terms_total", &[]));
    println!(
        "\nPrometheus reads: {} locks acquired, {} orders acked, {}.",
        scrape.value("lock_wait_seconds_count", &acquired),
        outcome("acked"),
        count(outcome("dead_letter") as usize, "dead letter", "dead letters")
    );
}
