//! Runs the tasks of simulated processes one at a time, in an order drawn from a seed.
//!
//! All tasks of a world run in one tokio task, so that the seed alone decides which one is next; neither the machine
//! nor the order in which a channel wakes its receivers matters. A process can be frozen: wake-ups of its tasks are
//! remembered, and the tasks resume at the thaw, while the clock and the other processes never stop. That is what
//! SIGSTOP does.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;

use crate::client::runtime::Spawn;
use crate::testing::ensemble::OUTSIDE;
use crate::util::mutex::{Mutex, MutexGuard};
use crate::util::panic::caught;

/// A process of the world; tasks of [`WORLD`] are never frozen.
pub(crate) type ProcessId = u32;
/// The world itself: the ensemble.
pub(crate) const WORLD: ProcessId = 0;

type TaskId = u64;

/// Called after each step of a task.
pub(crate) type AfterStep = Box<dyn Fn() + Send + Sync>;

/// A handle to the tasks of a world.
#[derive(Clone)]
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    driver: AtomicWaker,
    after_step: Option<AfterStep>,
}

#[derive(Default)]
struct State {
    random: fastrand::Rng,
    last_task: TaskId,
    last_process: ProcessId,
    /// The number of groups of clients outside this process.
    outside: u32,
    tasks: BTreeMap<TaskId, Task>,
    /// Tasks to be polled.
    ready: BTreeSet<TaskId>,
    /// Tasks of frozen processes that will be ready at the thaw.
    parked: BTreeMap<ProcessId, BTreeSet<TaskId>>,
    panics: Vec<String>,
    /// Whether the driver is gone, so that nothing runs any more.
    over: bool,
}

struct Task {
    process: ProcessId,
    /// `None` while it is polled.
    future: Option<BoxFuture<'static, ()>>,
    waker: Waker,
}

impl State {
    fn wake(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get(&id) else { return };
        match self.parked.get_mut(&task.process) {
            Some(parked) => parked.insert(id),
            None => self.ready.insert(id),
        };
    }

    /// Takes a task that is ready.
    fn pick(&mut self) -> Option<(TaskId, BoxFuture<'static, ()>, Waker)> {
        while !self.ready.is_empty() {
            let at = self.random.usize(..self.ready.len());
            let id = *self.ready.iter().nth(at)?;
            self.ready.remove(&id);
            if let Some(task) = self.tasks.get_mut(&id)
                && let Some(future) = task.future.take()
            {
                return Some((id, future, task.waker.clone()));
            }
        }
        None
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Polls one task. Returns whether more are ready.
    fn step(&self) -> bool {
        let Some((id, mut future, waker)) = self.state().pick() else {
            return false;
        };
        let polled = caught(|| future.poll_unpin(&mut Context::from_waker(&waker)));
        if let Ok(Poll::Pending) = polled {
            if let Some(task) = self.state().tasks.get_mut(&id) {
                task.future = Some(future);
            }
        } else {
            // Dropped outside the lock: its destructor may wake other tasks, or panic, which ends only this task.
            let dropped = caught(move || drop(future));
            let mut state = self.state();
            state.tasks.remove(&id);
            state.panics.extend([polled.err(), dropped.err()].into_iter().flatten());
        }
        let more = !self.state().ready.is_empty();
        if let Some(after_step) = &self.after_step
            && let Err(message) = caught(after_step)
        {
            self.state().panics.push(message.clone());
            // This ends the driver, and with it the world.
            std::panic::resume_unwind(Box::new(message));
        }
        more
    }

    /// Drops all tasks, as a runtime that shuts down does.
    fn end(&self) {
        let tasks = {
            let mut state = self.state();
            state.over = true;
            std::mem::take(&mut state.tasks)
        };
        drop(tasks);
    }
}

struct TaskWaker {
    id: TaskId,
    shared: Weak<Shared>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.state().wake(self.id);
            shared.driver.wake();
        }
    }
}

/// The future that runs the tasks. It must be spawned on the runtime whose clock the world uses.
struct Driver(Weak<Shared>);

impl Future for Driver {
    type Output = ();

    /// Polls one task at a time, so that each has a full cooperative budget of tokio.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = self.0.upgrade() else {
            return Poll::Ready(());
        };
        shared.driver.register(cx.waker());
        if shared.step() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.end();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Wakes the driver, so that it ends.
        self.driver.wake();
    }
}

impl Scheduler {
    /// Returns a world without tasks, and the future that drives it.
    pub(crate) fn new(seed: u64, after_step: Option<AfterStep>) -> (Self, BoxFuture<'static, ()>) {
        let state = State { random: fastrand::Rng::with_seed(seed), ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), driver: AtomicWaker::new(), after_step });
        let driver = Driver(Arc::downgrade(&shared)).boxed();
        (Scheduler { shared }, driver)
    }

    /// Creates a process.
    pub(crate) fn process(&self) -> Process {
        let mut state = self.shared.state();
        state.last_process += 1;
        Process { scheduler: self.clone(), id: state.last_process }
    }

    /// Creates a process that stands for clients outside this one. Its number differs from all that
    /// [`process`](Self::process) assigns.
    pub(crate) fn outside(&self) -> Process {
        let mut state = self.shared.state();
        state.outside += 1;
        Process { scheduler: self.clone(), id: OUTSIDE + state.outside }
    }

    /// Runs a task of a process. Drops it if the runtime has ended.
    pub(crate) fn spawn(&self, process: ProcessId, task: impl Future<Output = ()> + Send + 'static) {
        let task = task.boxed();
        {
            let mut state = self.shared.state();
            if state.over {
                return;
            }
            state.last_task += 1;
            let id = state.last_task;
            let waker = Waker::from(Arc::new(TaskWaker { id, shared: Arc::downgrade(&self.shared) }));
            state.tasks.insert(id, Task { process, future: Some(task), waker });
            state.wake(id);
        }
        self.shared.driver.wake();
    }

    /// Stops the tasks of the process.
    pub(crate) fn freeze(&self, process: ProcessId) {
        let mut state = self.shared.state();
        let (tasks, ready) = (&state.tasks, &state.ready);
        let parked = ready.iter().filter(|id| tasks.get(id).is_some_and(|task| task.process == process));
        let parked: BTreeSet<TaskId> = parked.copied().collect();
        state.ready.retain(|id| !parked.contains(id));
        state.parked.entry(process).or_default().extend(parked);
    }

    /// Resumes the tasks of the process.
    pub(crate) fn thaw(&self, process: ProcessId) {
        let mut state = self.shared.state();
        let parked = state.parked.remove(&process).unwrap_or_default();
        state.ready.extend(parked);
        drop(state);
        self.shared.driver.wake();
    }

    pub(crate) fn is_frozen(&self, process: ProcessId) -> bool {
        self.shared.state().parked.contains_key(&process)
    }

    /// Returns the frozen processes.
    pub(crate) fn frozen(&self) -> Vec<ProcessId> {
        self.shared.state().parked.keys().copied().collect()
    }

    /// Returns whether nothing runs any more: the runtime has ended, or a check after a step has failed.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.state().over
    }

    /// Returns the messages of panics in tasks and in the check after a step.
    pub(crate) fn panics(&self) -> Vec<String> {
        self.shared.state().panics.clone()
    }
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

/// The process in which the tasks of one client run.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    scheduler: Scheduler,
    pub(crate) id: ProcessId,
}

impl Process {
    /// Returns whether this process belongs to the world of `scheduler`.
    pub(crate) fn is_of(&self, scheduler: &Scheduler) -> bool {
        Arc::ptr_eq(&self.scheduler.shared, &scheduler.shared)
    }
}

impl Spawn for Process {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.scheduler.spawn(self.id, task);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    fn scheduler(seed: u64) -> Scheduler {
        let (scheduler, driver) = Scheduler::new(seed, None);
        tokio::runtime::Handle::current().spawn(driver);
        scheduler
    }

    /// Returns the order in which ten tasks that wait for the same event continue.
    async fn order(seed: u64) -> Vec<u32> {
        let scheduler = scheduler(seed);
        let (told, tell) = tokio::sync::mpsc::unbounded_channel();
        let start = Arc::new(tokio::sync::watch::Sender::new(false));
        let mut tell = tell;
        for task in 0..10 {
            let (told, mut started) = (told.clone(), start.subscribe());
            scheduler.spawn(WORLD, async move {
                if started.changed().await.is_ok() {
                    told.send(task).expect("a listener");
                }
            });
        }
        drop(told);
        sleep(Duration::from_millis(1)).await;
        start.send_replace(true);
        let mut order = Vec::new();
        while let Some(task) = tell.recv().await {
            order.push(task);
        }
        order
    }

    #[tokio::test(start_paused = true)]
    async fn the_seed_alone_decides_who_goes_next() {
        let first = order(7).await;
        for _ in 0..20 {
            assert_eq!(order(7).await, first);
        }
        assert_eq!(first.len(), 10);
        let mut others = BTreeSet::new();
        for seed in 0..20 {
            others.insert(order(seed).await);
        }
        assert!(others.len() > 15, "different seeds must give different orders: {}", others.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_frozen_process_stands_still_and_sees_its_timers_late() {
        let scheduler = scheduler(0);
        let (frozen, free) = (scheduler.process(), scheduler.process());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let start = Instant::now();
        for process in [&frozen, &free] {
            let (id, seen) = (process.id, Arc::clone(&seen));
            scheduler.spawn(id, async move {
                sleep(Duration::from_secs(1)).await;
                seen.lock().push((id, start.elapsed().as_secs()));
            });
        }
        // Both have begun to sleep.
        sleep(Duration::from_millis(1)).await;
        scheduler.freeze(frozen.id);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(*seen.lock(), [(free.id, 1)]);
        scheduler.thaw(frozen.id);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(*seen.lock(), [(free.id, 1), (frozen.id, 60)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_ends_its_task_alone_and_is_kept() {
        let scheduler = scheduler(0);
        scheduler.spawn(WORLD, async { panic!("a defect") });
        let (done, is_done) = tokio::sync::oneshot::channel();
        scheduler.spawn(WORLD, async move { done.send(()).expect("a waiter") });
        is_done.await.unwrap();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(scheduler.panics(), ["a defect"]);
    }

    /// Counts how often it is dropped.
    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn tasks_go_with_the_runtime_also_when_they_hold_the_scheduler() {
        let ended = Arc::new(AtomicUsize::new(0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let scheduler = runtime.block_on(async {
            let scheduler = scheduler(0);
            let (held, counted) = (scheduler.clone(), Counted(Arc::clone(&ended)));
            scheduler.spawn(WORLD, async move {
                let _kept = (held, counted);
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
            scheduler
        });
        assert_eq!(ended.load(Ordering::Relaxed), 0);
        drop(runtime);
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        let counted = Counted(Arc::clone(&ended));
        scheduler.spawn(WORLD, async move { drop(counted) });
        assert_eq!(ended.load(Ordering::Relaxed), 2, "a task without a runtime is dropped");
    }
}
