//! The calls that acquire a lock: one text and one code for a mutex and for both sides of a read-write lock.

/// Gives a lock its calls. The field `$line` of the lock is its line, and its function `guard` makes a guard of what is
/// held.
macro_rules! lock_calls {
    ($lock:ty, $line:ident, $Guard:ty) => {
        impl $lock {
            /// Waits for the lock without a limit. If the session is lost meanwhile, it takes a new place in the next
            /// session.
            ///
            /// # Errors
            /// [`Error::Client`] if the node could not be created or the waiters could not be read, for example without
            /// permission. [`Error::Closed`] if the client was closed, or the runtime behind it has ended.
            ///
            /// # Cancel safety
            /// Cancel safe: the place is given up, and its node is deleted in the background.
            pub async fn acquire(&self) -> Result<$Guard, Error> {
                let held = self.$line.acquire().await;
                held.map(|held| self.guard(held)).map_err(|error| self.error(error))
            }

            /// Waits for the lock like [`acquire`](Self::acquire), but for at most `timeout`. This bounds the whole
            /// call: connecting, creating the node, waiting and leaving. The last eighth of the timeout, at most 1 s,
            /// is reserved for leaving.
            ///
            /// `None` means that another participant was ahead, and that this call has left no node.
            ///
            /// # Errors
            /// * [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) if no other participant was seen ahead: no server
            ///   could be asked in time, or the lock was free and no server confirmed in time that the session is
            ///   alive. A zero timeout returns it at once, without a request; [`try_acquire`](Self::try_acquire) asks
            ///   without waiting.
            /// * [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if it could not be confirmed in time
            ///   that the node is gone. It is deleted in the background, at the latest with the session.
            /// * Otherwise as [`acquire`](Self::acquire).
            ///
            /// # Panics
            /// If it is awaited without tokio's timers.
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn acquire_timeout(&self, timeout: std::time::Duration) -> Result<Option<$Guard>, Error> {
                let held = self.$line.acquire_timeout(timeout).await;
                held.map(|held| held.map(|held| self.guard(held))).map_err(|error| self.error(error))
            }

            /// Returns the lock if no other participant has to be waited for, and `None` otherwise. It waits for the
            /// servers only, and at most for the client's connection timeout.
            ///
            /// A client that has held nothing for five seconds sends no heartbeats. Its first acquire must prove that
            /// the session is alive. Usually the requests of the acquire itself do so, because the session's pings were
            /// answered a tick before. If none was, two heartbeats one [tick](crate::ClientBuilder::tick_time) apart
            /// do, and the call takes that long.
            ///
            /// # Errors
            /// * [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) if no server could be asked, or none confirmed
            ///   that the session is alive, in time.
            /// * [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if it could not be confirmed in time
            ///   that the node is gone. It is deleted in the background.
            /// * Otherwise as [`acquire`](Self::acquire).
            ///
            /// # Panics
            /// If it is awaited without tokio's timers.
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn try_acquire(&self) -> Result<Option<$Guard>, Error> {
                let held = self.$line.try_acquire().await;
                held.map(|held| held.map(|held| self.guard(held))).map_err(|error| self.error(error))
            }

            /// Returns the path of the lock.
            pub fn path(&self) -> &str {
                self.$line.path()
            }

            fn error(&self, error: $crate::client::Error) -> Error {
                Error::client(<$Guard>::LOCK, self.path(), error)
            }

            pub(crate) fn into_line(self) -> $crate::contender::lock::LockLine {
                self.$line
            }
        }
    };
}

pub(crate) use lock_calls;
