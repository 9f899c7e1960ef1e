//! The first act: members join and leave, and each time the maximum is divided by their number.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use recipes_examples::{Result, Stage, println, until};
use tokio::sync::watch;
use zookeeper_recipes::Client;
use zookeeper_recipes::throughput_balancer::{Share, ThroughputBalancer, set_max_throughput};

/// The newest share of each member, by number, and the greatest sum of all shares in a step. A lower share is noted
/// here before it is acknowledged, so no other member gets the difference earlier.
#[derive(Debug, Default)]
struct Applied {
    shares: BTreeMap<usize, Share>,
    most: u64,
}

impl Applied {
    /// Returns the throughput that each member applies now, without members whose share is 0.
    fn now(&self) -> BTreeMap<usize, u64> {
        let now = self.shares.iter().map(|(number, share)| (*number, share.throughput()));
        now.filter(|(_, throughput)| *throughput > 0).collect()
    }

    fn together(&self) -> u64 {
        self.shares.values().map(Share::throughput).sum()
    }

    fn note(&mut self, number: usize, share: Share) {
        self.shares.insert(number, share);
        self.most = self.most.max(self.together());
    }
}

struct Member {
    client: Client,
    balancer: ThroughputBalancer,
}

/// The table; each step prints a row of it.
pub(crate) struct Table<'a> {
    stage: &'a Stage,
    path: &'a str,
    maximum: u64,
    members: BTreeMap<usize, Member>,
    applied: watch::Sender<Applied>,
}

const MEMBERS: usize = 5;

impl<'a> Table<'a> {
    pub(crate) fn new(stage: &'a Stage, path: &'a str) -> Self {
        Table { stage, path, maximum: 1_000, members: BTreeMap::new(), applied: watch::Sender::default() }
    }

    pub(crate) async fn play(mut self) -> Result<()> {
        let names: String = (1..=MEMBERS).map(|number| format!("{:>7}", format!("c{number}"))).collect();
        println!("{:28}{names}{:>11}{:>10}", "", "together", "at most");
        let operator = self.stage.connect().await?;
        set_max_throughput(&operator, self.path, self.maximum).await?;
        self.joins(1).await?;
        self.tell("maximum 1000, c1 joins").await?;
        for number in 2..=4 {
            self.joins(number).await?;
            self.tell(&format!("c{number} joins")).await?;
        }
        // c1 does not call `leave`: its znodes are deleted because its session ends.
        self.member(1)?.client.close().await?;
        self.has_left(1, "c1 closes its client").await?;
        self.member(4)?.balancer.leave().await;
        self.has_left(4, "c4 leaves").await?;
        let before = std::mem::replace(&mut self.maximum, 500);
        set_max_throughput(&operator, self.path, self.maximum).await?;
        self.tell_within("maximum lowered to 500", before).await?;
        self.joins(5).await?;
        self.tell("c5 joins").await?;
        println!(
            "\nThe leader (*) computes the shares, and writes a znode for each member. \"At most\" is the\n\
             greatest sum that all members applied at once in that step: never more than the maximum, or than\n\
             the previous one in the step that lowers it."
        );
        join_all(self.members.values().map(|member| member.balancer.leave())).await;
        Ok(())
    }

    fn member(&self, number: usize) -> Result<&Member> {
        self.members.get(&number).ok_or_else(|| format!("c{number} is not a member").into())
    }

    async fn joins(&mut self, number: usize) -> Result<()> {
        let client = self.stage.connect().await?;
        let balancer = until(ThroughputBalancer::builder(&client, self.path).join()).await??;
        let applied = self.applied.clone();
        balancer.on_share(move |share: Share| {
            applied.send_modify(|applied| applied.note(number, share));
            std::future::ready(())
        });
        self.members.insert(number, Member { client, balancer });
        Ok(())
    }

    async fn has_left(&mut self, number: usize, step: &str) -> Result<()> {
        until(self.applied.subscribe().wait_for(|applied| !applied.now().contains_key(&number))).await??;
        self.members.remove(&number);
        self.tell(step).await
    }

    async fn tell(&mut self, step: &str) -> Result<()> {
        self.tell_within(step, self.maximum).await
    }

    /// Waits until all members have their shares, and prints a row of the table.
    async fn tell_within(&mut self, step: &str, limit: u64) -> Result<()> {
        let share = self.maximum / self.members.len() as u64;
        let wanted: BTreeMap<_, _> = self.members.keys().map(|number| (*number, share)).collect();
        until(self.applied.subscribe().wait_for(|applied| applied.now() == wanted)).await??;
        let leader = until(self.leader()).await?;
        let cells = (1..=MEMBERS).map(|number| match wanted.get(&number) {
            Some(share) => format!("{:>7}", format!("{}{share}", if number == leader { "*" } else { "" })),
            None => format!("{:>7}", "-"),
        });
        let (together, most) = self.end_step();
        println!("{step:28}{}{together:>11}{most:>10}", cells.collect::<String>());
        if most > limit {
            return Err(format!("the shares sum to {most}, more than {limit}").into());
        }
        Ok(())
    }

    /// Ends a step. Returns the sum of all shares now, and the greatest sum in this step.
    fn end_step(&self) -> (u64, u64) {
        let mut told = (0, 0);
        self.applied.send_modify(|applied| {
            let together = applied.together();
            told = (together, std::mem::replace(&mut applied.most, together));
        });
        told
    }

    async fn leader(&self) -> usize {
        loop {
            if let Some((number, _)) = self.members.iter().find(|(_, member)| member.balancer.is_leader()) {
                return *number;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
