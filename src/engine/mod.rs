//! The engine: sessions with ZooKeeper servers.
//!
//! | file | what |
//! |---|---|
//! | `ensemble` | an ensemble, and how its sessions are opened |
//! | `options` | the options of an ensemble |
//! | `requests` | `Session`: the requests that its owner makes |
//! | `ops` | the steps of a multi, and its outcome |
//! | `error` | why a request failed |
//! | `events` | watches, and their events |
//! | `observer` | what the owner of a session learns about its connection |
//! | `check` | checks of a request before it is sent |
//! | `connect_string` | the list of servers to connect to |
//! | `hosts` | which host is tried next and when, and the outcomes |
//! | `srv` | the servers that SRV records name |
//! | `configuration` | the hosts in the ensemble's dynamic configuration |
//! | `connect` | a connection to one host: TCP, TLS |
//! | `frames` | cuts the byte stream into frames |
//! | `question` | whether a server serves, before a session is handed to it |
//! | `failure` | why an attempt to connect failed |
//! | `handshake` | the exchange on a connection before it takes requests |
//! | `sasl` | mechanisms of authentication |
//! | `authentication` | the authentication of one connection by a mechanism |
//! | `digest_md5` | the mechanism for a user and a password |
//! | `tls` | TLS on an established connection |
//! | `environment` | what all sessions share |
//! | `request_limit` | the longest request that the servers read |
//! | `lacking_operations` | the operations that the servers lack |
//! | `link` | the writing of requests |
//! | `outstanding` | the unanswered requests |
//! | `watches` | the watches of a session |
//! | `restore` | the authentication and the watches of a session on a new connection |
//! | `serve` | a connection that takes requests |
//! | `state` | the state of a session that only its task uses |
//! | `departure` | leaves a server that the list no longer has |
//! | `session` | the task that connects, serves and reconnects |
//! | `shared` | the state of a session outside its task |
//! | `refusal` | what the error codes of the wire mean |
//! | `contract` | tests: the ensemble in memory behaves as real servers do |
//! | `tests` | tests: the engine against a scripted server |

mod authentication;
pub(crate) mod check;
mod configuration;
mod connect;
pub(crate) mod connect_string;
#[cfg(test)]
mod contract;
mod departure;
#[cfg(feature = "sasl-digest-md5")]
pub(crate) mod digest_md5;
mod ensemble;
mod environment;
mod error;
mod events;
mod failure;
mod frames;
mod handshake;
mod hosts;
mod lacking_operations;
mod link;
mod observer;
mod ops;
mod options;
mod outstanding;
mod question;
mod refusal;
mod request_limit;
mod requests;
mod restore;
pub(crate) mod sasl;
mod serve;
mod session;
mod shared;
mod srv;
mod state;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
pub(crate) mod tls;
mod watches;

pub(crate) use self::connect::Connector;
pub(crate) use self::connect::Stream;
pub(crate) use self::connect_string::Endpoint;
pub(crate) use self::ensemble::Ensemble;
pub(crate) use self::error::Error;
pub use self::events::Event;
pub use self::events::WatchMode;
pub(crate) use self::events::{PersistentEvent, PersistentWatch, Watch};
pub(crate) use self::observer::{Loss, Observer, Proof, SessionEvent};
pub(crate) use self::ops::{Multi, Op, OpResult};
#[cfg(test)]
pub(crate) use self::options::Jitter;
pub(crate) use self::options::{Options, Spawner};
pub(crate) use self::refusal::refusal;
pub(crate) use self::requests::{ManyRead, Reply, Session};
pub(crate) use self::session::Opened;
