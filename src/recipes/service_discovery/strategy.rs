//! How the next instance is chosen.

use std::fmt;
use std::sync::Arc;

use super::ServiceInstance;

/// How [`Service::next`](super::Service::next) chooses an instance: Curator's `ProviderStrategy`.
#[derive(Default)]
#[non_exhaustive]
pub enum Strategy<P> {
    /// One after the other; each process begins at a random one. This is the default, as in Curator.
    #[default]
    RoundRobin,
    /// Any one.
    Random,
    /// The same one until it is gone, disabled or down, then any other.
    Sticky,
    /// The one with the smallest load; of several, one after the other. See [`Strategy::least_loaded`].
    LeastLoaded(Load<P>),
}

impl<P> Strategy<P> {
    /// Chooses the instance for which `load` is smallest, such as the number of requests that are under way there. It
    /// is called for each instance at each choice, so it must be quick, and must not panic.
    pub fn least_loaded(load: impl Fn(&ServiceInstance<P>) -> u64 + Send + Sync + 'static) -> Self {
        Strategy::LeastLoaded(Load(Arc::new(load)))
    }
}

impl<P> Clone for Strategy<P> {
    fn clone(&self) -> Self {
        match self {
            Strategy::RoundRobin => Strategy::RoundRobin,
            Strategy::Random => Strategy::Random,
            Strategy::Sticky => Strategy::Sticky,
            Strategy::LeastLoaded(load) => Strategy::LeastLoaded(load.clone()),
        }
    }
}

impl<P> fmt::Debug for Strategy<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strategy::RoundRobin => "RoundRobin",
            Strategy::Random => "Random",
            Strategy::Sticky => "Sticky",
            Strategy::LeastLoaded(_) => "LeastLoaded",
        })
    }
}

/// A measure of how busy an instance is.
pub struct Load<P>(Measure<P, u64>);

/// The weight of an instance.
pub(super) struct Weight<P>(Measure<P, u32>);

type Measure<P, T> = Arc<dyn Fn(&ServiceInstance<P>) -> T + Send + Sync>;

impl<P> Load<P> {
    pub(super) fn of(&self, instance: &ServiceInstance<P>) -> u64 {
        (self.0)(instance)
    }
}

impl<P> Weight<P> {
    pub(super) fn new(weight: impl Fn(&ServiceInstance<P>) -> u32 + Send + Sync + 'static) -> Self {
        Weight(Arc::new(weight))
    }

    /// A weight that cannot be told, as the user's code panics, is 1.
    pub(super) fn of(&self, instance: &ServiceInstance<P>) -> u32 {
        crate::util::panic::caught(|| (self.0)(instance)).unwrap_or(1)
    }
}

impl<P> Clone for Load<P> {
    fn clone(&self) -> Self {
        Load(Arc::clone(&self.0))
    }
}

impl<P> fmt::Debug for Load<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Load")
    }
}
