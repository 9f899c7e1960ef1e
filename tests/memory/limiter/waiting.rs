//! Those who wait: in order, whatever happens to the rate and to each other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::poll;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use zookeeper_recipes::limiter::ShareLimiter;

/// Tasks that wait for permits, and who was granted some and when.
struct Line {
    limiter: ShareLimiter,
    start: Instant,
    granted: Arc<Mutex<Vec<(usize, u64)>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Line {
    fn new(limiter: ShareLimiter) -> Self {
        Line { limiter, start: Instant::now(), granted: Arc::default(), tasks: Vec::new() }
    }

    /// Another caller starts to wait.
    async fn stand(&mut self, permits: u64) {
        let (limiter, start, granted) = (self.limiter.clone(), self.start, Arc::clone(&self.granted));
        let number = self.tasks.len();
        self.tasks.push(tokio::spawn(async move {
            limiter.acquire(permits).await.expect("no more than the burst");
            granted.lock().expect("no panic").push((number, start.elapsed().as_millis() as u64));
        }));
        tokio::task::yield_now().await;
    }

    /// Who was granted permits, and at which millisecond.
    fn granted(&self) -> Vec<(usize, u64)> {
        self.granted.lock().expect("no panic").clone()
    }
}

async fn line_of(limiter: ShareLimiter, permits: &[u64]) -> Line {
    let mut line = Line::new(limiter);
    for &permits in permits {
        line.stand(permits).await;
    }
    line
}

fn with_burst(rate: u64, burst: u64) -> ShareLimiter {
    ShareLimiter::with_burst(rate, burst).expect("a good burst")
}

#[tokio::test(start_paused = true)]
async fn first_come_first_served_also_if_a_later_one_wants_less() {
    let line = line_of(with_burst(10, 5), &[5, 1, 2]).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(line.granted(), [(0, 500), (1, 600), (2, 800)]);
}

#[tokio::test(start_paused = true)]
async fn no_caller_overtakes_a_waiting_one() {
    let line = line_of(with_burst(10, 5), &[5]).await;
    sleep(Duration::from_millis(400)).await;
    assert_eq!(line.limiter.try_acquire(1), Ok(false), "four are there, for the one who waits");
    sleep(Duration::from_millis(200)).await;
    assert_eq!(line.granted(), [(0, 500)]);
    assert_eq!(line.limiter.try_acquire(1), Ok(true));
}

#[tokio::test(start_paused = true)]
async fn a_rate_after_none_wakes_all_in_their_order() {
    let line = line_of(ShareLimiter::new(0), &[1; 4]).await;
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(line.granted(), []);
    line.limiter.set_rate(10).expect("no member drives it");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(line.granted(), [(0, 3_600_100), (1, 3_600_200), (2, 3_600_300), (3, 3_600_400)]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_follows_each_new_rate() {
    let line = line_of(ShareLimiter::new(1), &[1; 3]).await;
    sleep(Duration::from_millis(500)).await;
    line.limiter.set_rate(10).expect("no member drives it"); // the other half comes in 50 ms
    sleep(Duration::from_millis(100)).await;
    line.limiter.set_rate(1).expect("no member drives it"); // half of the second was there
    sleep(Duration::from_millis(200)).await;
    line.limiter.set_rate(0).expect("no member drives it"); // and is lost
    sleep(Duration::from_millis(200)).await;
    line.limiter.set_rate(100).expect("no member drives it");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(line.granted(), [(0, 550), (1, 1_010), (2, 1_020)]);
}

#[tokio::test(start_paused = true)]
async fn one_who_gives_up_in_the_middle_takes_nothing() {
    let line = line_of(with_burst(10, 5), &[1, 5, 1]).await;
    sleep(Duration::from_millis(50)).await;
    line.tasks[1].abort();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(line.granted(), [(0, 100), (2, 200)]);
    assert_eq!(line.limiter.try_acquire(1), Ok(true), "no cancelled caller is still counted as waiting");
}

#[tokio::test(start_paused = true)]
async fn when_the_first_gives_up_the_next_has_what_was_there() {
    let line = line_of(with_burst(10, 5), &[5, 1, 1]).await;
    sleep(Duration::from_millis(450)).await;
    line.tasks[0].abort();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(line.granted(), [(1, 450), (2, 450)]);
}

#[tokio::test(start_paused = true)]
async fn thousands_wait_and_each_is_served_once() {
    let line = line_of(ShareLimiter::new(1_000), &[1; 5_000]).await;
    sleep(Duration::from_secs(10)).await;
    let granted = line.granted();
    let expected: Vec<_> = (0..5_000).map(|number| (number as usize, number + 1)).collect();
    assert_eq!(granted, expected);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_no_longer_polled_holds_no_others_up() {
    let limiter = with_burst(10, 5);
    let mut parked = Box::pin(limiter.acquire(5));
    assert!(poll!(&mut parked).is_pending());
    let line = line_of(limiter.clone(), &[1, 1, 1]).await;
    sleep(Duration::from_secs(1)).await;
    let who: Vec<_> = line.granted().into_iter().map(|(number, _)| number).collect();
    assert_eq!(who, [0, 1, 2], "at {:?}", line.granted());
    assert_eq!(poll!(&mut parked), std::task::Poll::Ready(Ok(())), "its permits were set aside");
}

/// However many they are: it takes twice as long at most as if all were polled.
#[tokio::test(start_paused = true)]
async fn one_behind_many_that_are_not_polled_is_served() {
    let limiter = ShareLimiter::new(10);
    let mut parked: Vec<_> = (0..100).map(|_| Box::pin(limiter.acquire(1))).collect();
    for parked in &mut parked {
        assert!(poll!(parked).is_pending());
    }
    let start = Instant::now();
    limiter.acquire(1).await.expect("no more than the burst");
    assert!(start.elapsed() <= Duration::from_millis(2 * 10_100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_was_set_aside_for_one_that_is_dropped_is_there_for_others() {
    let limiter = with_burst(10, 5);
    let mut parked = Box::pin(limiter.acquire(5));
    assert!(poll!(&mut parked).is_pending());
    sleep(Duration::from_millis(500)).await;
    assert_eq!(limiter.try_acquire(1), Ok(false), "they are set aside");
    drop(parked);
    assert_eq!(limiter.try_acquire(5), Ok(true));
    assert_eq!(limiter.try_acquire(1), Ok(false));
}
