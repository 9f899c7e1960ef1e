//! Asks "do you lead?" over and over on a thread of its own, and keeps what was answered when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::moment::Moment;

pub(crate) type Question = Box<dyn Fn() -> bool + Send>;

/// Between two rounds of questions.
const PAUSE: Duration = Duration::from_micros(300);
/// Answers further apart stand for themselves, so that the first one after a stop of the process can be told.
const GAP: f64 = 100.0;

/// Some instant between these two, at which the question was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begin: Moment,
    pub(crate) end: Moment,
}

/// A time of equal answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) answer: bool,
    pub(crate) first: Span,
    pub(crate) last: Span,
}

/// All answers to one question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) stretches: Vec<Stretch>,
}

impl Stretch {
    /// Both were so at one moment.
    fn overlaps(&self, other: &Stretch) -> bool {
        self.first.end < other.last.begin && other.first.end < self.last.begin
    }
}

impl Timeline {
    /// The answers without those of a later term: the leader whose node was gone at `gone` says no, another one leads
    /// and stops leading, and then it may be elected again. A yes beside the other's belongs to no later term.
    pub(crate) fn until_led_again(&self, gone: Moment, other: &Timeline) -> Timeline {
        let others: Vec<&Stretch> = other.stretches.iter().filter(|stretch| stretch.answer).collect();
        let later = self.stretches.iter().enumerate().position(|(at, stretch)| {
            let said_no = at > 0 && !self.stretches[at - 1].answer;
            let other_led = others.iter().any(|led| led.last.begin < stretch.first.end);
            stretch.answer && stretch.first.begin > gone && said_no && other_led
        });
        let Some(later) = later else { return self.clone() };
        let (term, rest) = self.stretches.split_at(later);
        if rest.iter().any(|stretch| stretch.answer && others.iter().any(|led| led.overlaps(stretch))) {
            return self.clone();
        }
        Timeline { stretches: term.to_vec() }
    }

    pub(crate) fn note(&mut self, answer: bool, at: Span) {
        match self.stretches.last_mut() {
            Some(stretch) if stretch.answer == answer && at.begin.millis_since(stretch.last.end) < GAP => {
                stretch.last = at;
            }
            _ => self.stretches.push(Stretch { answer, first: at, last: at }),
        }
    }

    pub(crate) fn first_yes(&self) -> Option<Span> {
        self.stretches.iter().find(|stretch| stretch.answer).map(|stretch| stretch.first)
    }

    pub(crate) fn last_yes(&self) -> Option<Span> {
        self.stretches.iter().rfind(|stretch| stretch.answer).map(|stretch| stretch.last)
    }

    /// The first no after the last yes.
    pub(crate) fn final_no(&self) -> Option<Span> {
        let after = self.stretches.iter().rposition(|stretch| stretch.answer).map_or(0, |at| at + 1);
        self.stretches.get(after).map(|stretch| stretch.first)
    }

    /// The first answer to a question that was asked after `moment`.
    pub(crate) fn first_asked_after(&self, moment: Moment) -> Option<bool> {
        let stretch = self.stretches.iter().find(|stretch| stretch.last.begin > moment)?;
        Some(stretch.answer)
    }

    /// Whether the latest answer is yes and was asked for after `moment`.
    pub(crate) fn is_yes_after(&self, moment: Moment) -> bool {
        let last = self.stretches.last();
        last.is_some_and(|stretch| stretch.answer && stretch.last.begin > moment)
    }

    /// How long after `moment` the answer was no, in milliseconds.
    pub(crate) fn noes_after(&self, moment: Moment) -> f64 {
        let noes = self.stretches.iter().filter(|stretch| !stretch.answer && stretch.last.end > moment);
        noes.map(|stretch| stretch.last.end.millis_since(stretch.first.begin.max(moment))).fold(0.0, |sum, no| sum + no)
    }

    /// The answers since `moment`, in milliseconds from it.
    pub(crate) fn story(&self, moment: Moment) -> String {
        let told = self.stretches.iter().filter(|stretch| stretch.last.end > moment).map(|stretch| {
            let [begin, end] = [stretch.first.begin, stretch.last.end].map(|at| at.millis_since(moment));
            format!("{} {begin:.1}..{end:.1}", if stretch.answer { "yes" } else { "no" })
        });
        told.collect::<Vec<String>>().join(", ")
    }

    /// The longest time without a question, in milliseconds.
    pub(crate) fn longest_gap(&self) -> f64 {
        let pairs = self.stretches.windows(2);
        pairs.map(|pair| pair[1].first.begin.millis_since(pair[0].last.end)).fold(0.0, f64::max)
    }
}

/// Asks until it is dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    timelines: Arc<Mutex<Vec<Timeline>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    pub(crate) fn start(questions: Vec<Question>) -> Sampler {
        let timelines = Arc::new(Mutex::new(vec![Timeline::default(); questions.len()]));
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, stopped) = (Arc::clone(&timelines), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    for (i, question) in questions.iter().enumerate() {
                        let begin = Moment::now();
                        let answer = question();
                        let end = Moment::now();
                        lock(&kept)[i].note(answer, Span { begin, end });
                    }
                    std::thread::sleep(PAUSE);
                }
            })
            .expect("a thread");
        Sampler { timelines, stop, thread: Some(thread) }
    }

    /// The answers so far, question by question.
    pub(crate) fn timelines(&self) -> Vec<Timeline> {
        lock(&self.timelines).clone()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(timelines: &Mutex<Vec<Timeline>>) -> MutexGuard<'_, Vec<Timeline>> {
    timelines.lock().unwrap_or_else(PoisonError::into_inner)
}
