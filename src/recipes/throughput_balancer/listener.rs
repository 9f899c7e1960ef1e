//! Listeners of a member's share.

use super::share::Share;
use crate::client::listener::Deliver;
use crate::util::boxed::boxed_listener;

/// Receives each share, one after the other, on a task of its own.
///
/// Closures `Fn(Share) -> Future` are listeners. A lowered share is acknowledged when the call has returned.
pub trait ShareListener: Send + Sync + 'static {
    /// Handles a change of the share, or of what backs it. Call [`Share::throughput`] at each use of its value.
    fn share_changed(&self, share: Share) -> impl Future<Output = ()> + Send;
}

impl<F, Fut> ShareListener for F
where
    F: Fn(Share) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    fn share_changed(&self, share: Share) -> impl Future<Output = ()> + Send {
        self(share)
    }
}

boxed_listener! {
    /// A [`ShareListener`] of any type, for collections of listeners or to choose one at run time.
    ///
    /// To add a listener to several members, put it in an [`Arc`](std::sync::Arc), which is a listener too.
    ///
    /// ```no_run
    /// use zookeeper_recipes::throughput_balancer::{
    ///     BoxShareListener, Share, ThroughputBalancer,
    /// };
    ///
    /// # fn example(member: &ThroughputBalancer, verbose: bool) {
    /// let mut listeners = vec![BoxShareListener::new(|share: Share| async move {
    ///     println!("{} a second", share.throughput());
    /// })];
    /// if verbose {
    ///     listeners.push(BoxShareListener::new(|share: Share| async move {
    ///         println!("given by leader {}", share.epoch());
    ///     }));
    /// }
    /// for listener in listeners {
    ///     member.on_share(listener);
    /// }
    /// # }
    /// ```
    pub struct BoxShareListener: ShareListener {
        fn share_changed(&self, share: Share) -> ();
    }
}

pub(super) struct Follower<L>(pub(super) L);

impl<L: ShareListener> Deliver<Share> for Follower<L> {
    fn deliver(&self, share: Share) -> impl Future<Output = ()> + Send {
        self.0.share_changed(share)
    }
}
