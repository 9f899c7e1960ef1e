//! The calls on a value. Its data shows which call wrote it, and over what.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::shared_value::{Error, SharedValue};

use crate::history::{self, End};

pub(crate) const PATH: &str = "/value";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// The initial value that a handle writes when it starts.
    Seed(usize),
    Set(usize),
    Swap(usize),
    Update(usize),
}

/// Returns the tag of the call that wrote this data.
fn tag(data: &str) -> &str {
    data.split('<').next().unwrap_or_default()
}

impl Call {
    fn tag(self) -> String {
        match self {
            Call::Seed(id) => format!("seed{id}"),
            Call::Set(id) => format!("set{id}"),
            Call::Swap(id) => format!("swap{id}"),
            Call::Update(id) => format!("update{id}"),
        }
    }

    /// Returns what the call writes over `before`.
    pub(crate) fn data(self, before: &str) -> String {
        match self {
            Call::Seed(_) | Call::Set(_) => self.tag(),
            Call::Swap(_) | Call::Update(_) => format!("{}<{}", self.tag(), tag(before)),
        }
    }

    /// Makes the call, and returns how it ended. An error is a violation: the same handle must read what it wrote.
    pub(crate) async fn on(self, value: &SharedValue<String>) -> Result<End, String> {
        let known = value.get();
        let written = match (self, known) {
            (Call::Seed(_), _) => return Ok(End::NotDone),
            (Call::Set(_), _) => value.set(self.data("")).await.map(Some),
            (Call::Update(_), _) => value.update(|before| Some(self.data(before))).await,
            (Call::Swap(_), Err(_)) => return Ok(End::NotDone),
            (Call::Swap(_), Ok(before)) => {
                let swapped = value.compare_and_set(&before, self.data(&before)).await;
                if swapped == Ok(true)
                    && let Ok(now) = value.get()
                    && now.zxid() <= before.zxid()
                {
                    return Err(format!("{self:?} wrote over {before:?}, and then {now:?} was read"));
                }
                return self.ended(swapped);
            }
        };
        if let Ok(Some(written)) = &written
            && let Ok(now) = value.get()
            && now.zxid() < written.zxid()
        {
            return Err(format!("{self:?} wrote {written:?}, and then {now:?} was read"));
        }
        self.ended(written.map(|written| written.is_some()))
    }

    fn ended(self, outcome: Result<bool, Error>) -> Result<End, String> {
        match outcome {
            Ok(true) => Ok(End::Done),
            Ok(false) => Ok(End::NotDone),
            // No two calls of a seed write the same, so this one was carried out.
            Err(Error::SameValue { .. }) => Ok(End::Done),
            Err(error) => match error.kind() {
                ErrorKind::OutcomeUnknown => Ok(End::Unknown),
                ErrorKind::NoNode | ErrorKind::ConnectionLoss => Ok(End::NotDone),
                _ => Err(format!("{self:?} failed: {error}")),
            },
        }
    }
}

impl history::Call for Call {
    fn makes(&self, _before: Option<&[u8]>, after: &[u8]) -> bool {
        std::str::from_utf8(after).is_ok_and(|after| tag(after) == self.tag())
    }

    fn may(&self, before: Option<&[u8]>, after: &[u8]) -> bool {
        let Some(before) = before else { return matches!(self, Call::Seed(_)) };
        // The data that it wrote names what it saw.
        let before = String::from_utf8_lossy(before);
        let over = std::str::from_utf8(after).ok().and_then(|after| after.split_once('<')).map(|(_, over)| over);
        over.is_none_or(|over| over == tag(&before))
    }

    fn may_repeat(&self) -> bool {
        // The node may be deleted meanwhile.
        matches!(self, Call::Seed(_))
    }
}
