//! An instance of the service: a gRPC server.

use std::convert::Infallible;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use hyper::http::HeaderValue;
use recipes_examples::{Result, Stage, println, until};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};
use tonic::body::Body;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::server::health_reporter;
use tower::util::AndThenLayer;
use zookeeper_recipes::Client;
use zookeeper_recipes::service_discovery::{Registration, ServiceDiscovery, ServiceInstance};

/// The name of the service.
pub const SERVICE: &str = "api";
/// The header in which an instance answers with its name.
pub const ANSWERED_BY: &str = "answered-by";
/// How long an instance works on a call.
const WORK: Duration = Duration::from_millis(5);

/// An instance: a process with a client and threads of its own.
pub struct Process {
    pub client: Client,
    pub registration: Registration<()>,
    pub uri: String,
    threads: Threads,
    /// Notified when the server begins to work on a call.
    works: Arc<Notify>,
    end: oneshot::Sender<()>,
    served: JoinHandle<Result<()>>,
}

impl Process {
    /// Starts a server, then registers it. Its id is random, so it need not wait for the session of a former process.
    pub async fn start(stage: &Stage, path: &str, name: &str) -> Result<Process> {
        let client = stage.connect().await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let threads = Threads::start()?;
        let works = Arc::<Notify>::default();
        let (end, ended) = oneshot::channel();
        let served = threads.spawn(serve(listener, name.parse()?, Arc::clone(&works), ended));
        let instance = ServiceInstance::builder(SERVICE).address("127.0.0.1").port(port);
        let instance = instance.uri_spec("http://{address}:{port}".parse()?).build()?;
        let uri = instance.uri().ok_or("an instance has no URI")?;
        let registration = ServiceDiscovery::new(&client, path)?.register(instance).await?;
        println!("{name:>6} is registered at {uri}");
        Ok(Process { client, registration, uri, threads, works, end, served })
    }

    /// Unregisters it, and ends the server when it has answered the calls that are under way. Let callers hear first
    /// that it is disabled.
    pub async fn end(self) -> Result<()> {
        self.registration.unregister().await?;
        // The server waits for it.
        let _ = self.end.send(());
        until(self.served).await??
    }

    /// Ends its threads and closes its sockets in the middle of a call, as `kill -9` does. Its registration stays until
    /// its session has ended.
    pub async fn kill(&mut self) -> Result<()> {
        until(self.works.notified()).await?;
        let threads = self.threads.0.take();
        spawn_blocking(|| drop(threads)).await?;
        Ok(())
    }
}

/// Answers health checks until it is asked to end.
async fn serve(
    listener: TcpListener,
    name: HeaderValue,
    works: Arc<Notify>,
    ended: oneshot::Receiver<()>,
) -> Result<()> {
    listener.set_nonblocking(true)?;
    let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener)?).with_nodelay(Some(true));
    let (_reporter, health) = health_reporter();
    let work = AndThenLayer::new(move |mut answer: hyper::Response<Body>| {
        answer.headers_mut().insert(ANSWERED_BY, name.clone());
        works.notify_waiters();
        tokio::time::sleep(WORK).map(|()| Ok::<_, Infallible>(answer))
    });
    let server = Server::builder().layer(work).add_service(health);
    Ok(server.serve_with_incoming_shutdown(incoming, ended.map(drop)).await?)
}

/// The threads of a process.
struct Threads(Option<Runtime>);

impl Threads {
    fn start() -> Result<Threads> {
        Ok(Threads(Some(Builder::new_multi_thread().worker_threads(1).enable_all().build()?)))
    }

    fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.0.as_ref().expect("it was started").spawn(work)
    }
}

impl Drop for Threads {
    /// Ends them without waiting for that: it is dropped in asynchronous code, where a runtime must not wait.
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
