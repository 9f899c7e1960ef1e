//! The second act: fair shares by weight, one of them with a maximum, and work that is limited to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use recipes_examples::{Result, Stage, println, until};
use tokio::time::Instant;
use zookeeper_recipes::Client;
use zookeeper_recipes::limiter::ShareLimiter;
use zookeeper_recipes::throughput_balancer::{Allocation, ThroughputBalancer, set_max_throughput};

use crate::work;

/// A worker, which works as fast as its limiter allows; the limiter follows its share.
struct Worker {
    name: &'static str,
    balancer: ThroughputBalancer,
    limiter: ShareLimiter,
    done: Arc<AtomicU64>,
    _at_work: BoxFuture<'static, Result<()>>,
}

/// The workers, and the operator who sets their maximum.
pub(crate) struct Crew {
    path: String,
    operator: Client,
    workers: Vec<Worker>,
}

/// The name of each worker, its weight, and how much it can use.
const CREW: [(&str, u64, Option<u64>); 3] = [("alice", 3, None), ("bob", 1, None), ("carol", 1, Some(50))];

impl Crew {
    pub(crate) async fn assemble(stage: &Stage, path: &str) -> Result<Crew> {
        println!("\nFair shares by weight, and work that is limited to them, for a second a step:\n");
        let mut workers = Vec::new();
        for (name, weight, most) in CREW {
            let client = stage.connect().await?;
            let (limiter, done) = (ShareLimiter::new(0), Arc::new(AtomicU64::new(0)));
            let builder = ThroughputBalancer::builder(&client, path).allocation(Allocation::FairShare).weight(weight);
            let builder = if let Some(most) = most { builder.max(most) } else { builder };
            let balancer = until(builder.limiter(&limiter).join()).await??;
            let (limited, counted) = (limiter.clone(), Arc::clone(&done));
            let at_work = stage.spawn(&client, async move {
                // It never ends: a burst always has room for one permit.
                let _ = work(&limited, &counted).await;
            });
            workers.push(Worker { name, balancer, limiter, done, _at_work: at_work });
        }
        Ok(Crew { path: path.to_owned(), operator: stage.connect().await?, workers })
    }

    pub(crate) async fn play(mut self) -> Result<()> {
        let title = |(name, weight, most): (&str, u64, Option<u64>)| {
            let most = most.map(|most| format!(", can use {most}")).unwrap_or_default();
            format!("{:>30}", format!("{name} (weight {weight}{most})"))
        };
        println!("{:20}{}{:>11}", "", CREW.map(title).concat(), "together");
        set_max_throughput(&self.operator, &self.path, 650).await?;
        self.work("maximum 650", &[450, 150, 50]).await?;
        set_max_throughput(&self.operator, &self.path, 250).await?;
        self.work("lowered to 250", &[150, 50, 50]).await?;
        let bob = self.workers.remove(1);
        bob.balancer.leave().await;
        self.work("bob leaves", &[200, 50]).await?;
        println!("\nNo member did more than its share (and the burst of its limiter: one permit and those of 10 ms).");
        join_all(self.workers.iter().map(|worker| worker.balancer.leave())).await;
        Ok(())
    }

    /// Waits until the limiters have these rates, and counts for a second what each worker does.
    async fn work(&self, step: &str, rates: &[u64]) -> Result<()> {
        let now = || self.workers.iter().map(|worker| worker.limiter.rate()).collect::<Vec<_>>();
        until(async {
            while now() != rates {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await?;
        tell_row(step, &self.workers, rates);
        let began = Instant::now();
        let before: Vec<_> = self.workers.iter().map(|worker| worker.done.load(Ordering::Relaxed)).collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let done = self.workers.iter().zip(before).map(|(worker, before)| worker.done.load(Ordering::Relaxed) - before);
        let done: Vec<_> = done.collect();
        tell_row("  done", &self.workers, &done);
        for ((worker, done), rate) in self.workers.iter().zip(done).zip(rates) {
            // The burst of the limiter: one permit, and those of 10 ms, because timers may be that late.
            let allowed = (*rate as f64 * (began.elapsed().as_secs_f64() + 0.01)) + 1.0;
            if done as f64 > allowed {
                return Err(format!("{} did {done}, more than {allowed:.0}", worker.name).into());
            }
        }
        Ok(())
    }
}

/// Prints a row of the table: each number below the name of its worker.
fn tell_row(step: &str, workers: &[Worker], numbers: &[u64]) {
    let cells = CREW.map(|(name, ..)| {
        let at = workers.iter().position(|worker| worker.name == name);
        format!("{:>30}", at.map_or("-".to_owned(), |at| numbers[at].to_string()))
    });
    println!("{step:20}{}{:>11}", cells.concat(), numbers.iter().sum::<u64>());
}
