//! The third act: every member is replaced, one after another, while the maximum stays in use.

use std::collections::VecDeque;
use std::time::Duration;

use futures::future::join_all;
use recipes_examples::{Result, Stage, count, println, until};
use tokio::sync::watch;
use zookeeper_recipes::Client;
use zookeeper_recipes::throughput_balancer::{Share, ThroughputBalancer, set_max_throughput};

use crate::history::{History, Recorded};
use crate::plot::{Band, COLUMNS, plot};

const MEMBERS: usize = 12;
/// A multiple of the number of members, and of one more, so that all of it is used while nothing changes.
const MAXIMUM: u64 = 1_560;
/// How long nothing changes after each replacement.
const PAUSE: Duration = Duration::from_millis(75);

struct Member {
    client: Client,
    balancer: ThroughputBalancer,
}

/// The members, and the shares that they have applied.
pub(crate) struct RollingRestart<'a> {
    stage: &'a Stage,
    path: String,
    /// In the order of joining.
    members: VecDeque<Member>,
    /// How many have joined so far.
    joined: usize,
    history: watch::Sender<History>,
}

impl<'a> RollingRestart<'a> {
    pub(crate) fn new(stage: &'a Stage, path: String) -> Self {
        RollingRestart { stage, path, members: VecDeque::new(), joined: 0, history: watch::Sender::default() }
    }

    pub(crate) async fn play(mut self) -> Result<()> {
        println!(
            "\nA rolling restart: {MEMBERS} members share {MAXIMUM}. The oldest one leads, and is replaced first. To\n\
             replace a member, a new one joins; then the old one leaves, or only its client closes.\n"
        );
        let operator = self.stage.connect().await?;
        set_max_throughput(&operator, &self.path, MAXIMUM).await?;
        for _ in 0..MEMBERS {
            self.joins().await?;
        }
        self.settles().await?;
        self.history.send_modify(History::restart);
        tokio::time::sleep(PAUSE).await;
        for number in 0..MEMBERS {
            self.joins().await?;
            self.settles().await?;
            self.oldest_stops(number % 2 == 0).await?;
            self.settles().await?;
            tokio::time::sleep(PAUSE).await;
        }
        let recorded = self.history.borrow().recorded().ok_or("nothing was recorded")?;
        tell(&recorded);
        join_all(self.members.iter().map(|member| member.balancer.leave())).await;
        let most = recorded.most();
        if most > MAXIMUM {
            return Err(format!("the shares sum to {most}, more than {MAXIMUM}").into());
        }
        Ok(())
    }

    async fn joins(&mut self) -> Result<()> {
        let client = self.stage.connect().await?;
        let balancer = until(ThroughputBalancer::builder(&client, &self.path).join()).await??;
        let (number, history) = (self.joined, self.history.clone());
        // A lower share is noted before it is acknowledged, so no other member gets the difference earlier.
        balancer.on_share(move |share: Share| {
            history.send_modify(|history| history.note(number, share));
            std::future::ready(())
        });
        self.members.push_back(Member { client, balancer });
        self.joined += 1;
        Ok(())
    }

    /// Closes the client of the oldest member. If `leaves` is true, the member leaves first.
    async fn oldest_stops(&mut self, leaves: bool) -> Result<()> {
        let Member { client, balancer } = self.members.pop_front().ok_or("no member is left")?;
        if leaves {
            balancer.leave().await;
        }
        Ok(client.close().await?)
    }

    /// Waits until all present members have equal shares, and no other member has a share.
    async fn settles(&self) -> Result<()> {
        let share = MAXIMUM / self.members.len() as u64;
        let present = self.joined - self.members.len()..self.joined;
        let wanted = present.map(|number| (number, share)).collect();
        until(self.history.subscribe().wait_for(|history| history.applied() == wanted)).await??;
        Ok(())
    }
}

/// Prints the plot and its figures.
fn tell(recorded: &Recorded) {
    let columns = recorded.least_of_each(COLUMNS);
    let applied = |number| columns.iter().map(|applied| applied.get(&number).copied().unwrap_or_default()).collect();
    let bands = (0..2 * MEMBERS).map(|number| Band { letter: letter(number), applied: applied(number) });
    println!("{}", plot(&bands.collect::<Vec<_>>(), MAXIMUM, recorded.duration));
    println!(
        "Each letter is a member, as high as its share: a is replaced by A, b by B. The line is the maximum.\n\
         A column shows the moment of its {:.0} ms at which all members together applied least.\n",
        recorded.duration.as_secs_f64() * 1_000.0 / f64::from(COLUMNS)
    );
    let percent = |throughput: f64| throughput * 100.0 / MAXIMUM as f64;
    println!(
        "{MEMBERS} members replaced, {}. Maximum used: {:.1} % on average, {:.1} % at least, {:.1} % at most.",
        count(recorded.leaders, "leader", "leaders"),
        percent(recorded.average()),
        percent(recorded.least() as f64),
        percent(recorded.most() as f64),
    );
}

/// Returns a small letter for a member of the first generation, the same capital letter for its replacement.
fn letter(number: usize) -> char {
    let first = if number < MEMBERS { b'a' } else { b'A' };
    char::from(first + (number % MEMBERS) as u8)
}
