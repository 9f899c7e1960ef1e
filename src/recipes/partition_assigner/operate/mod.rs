//! What operators use, who need not be members: they read the state of an assigner, and write its `config`.

mod assemble;
mod config;
mod edit;
mod state;
mod value;

pub use self::config::{drain, pin, rebalance, undrain, unpin};
pub use self::state::state;
pub use self::value::{AssignerState, MemberInfo, PartitionInfo, UnreadableNode};
