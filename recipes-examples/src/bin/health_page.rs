//! What a service reports about itself to a load balancer and its operators, over HTTP.
//!
//! The service takes part in an election and is a member of a group. Its page is JSON, with status 200 while it is
//! connected, else 503. In memory its connection is lost for a moment; `--serve` goes on until it is asked to end:
//!
//! ```sh
//! cargo run -p recipes-examples --bin health_page -- --listen 127.0.0.1:8080 --serve
//! curl -i http://127.0.0.1:8080/health
//! ```

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, println, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use zookeeper_recipes::Client;
use zookeeper_recipes::group_member::GroupMember;
use zookeeper_recipes::leader_latch::LeaderLatch;

/// What a service reports about itself to a load balancer and its operators, over HTTP.
#[derive(Parser, Debug)]
#[command(name = "health_page")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the election and of the group
    #[arg(long, default_value = "/examples/health", value_parser = recipes_examples::path)]
    path: String,
    /// Where the page is served; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Go on until Ctrl-C
    #[arg(long)]
    serve: bool,
}

const USES: [(&str, &str); 2] = [("/leader", "the election"), ("/group", "the group")];

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        Znodes { path: &self.path, shared_by: None, uses: &USES }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let listen = options.listen;
    let listener = TcpListener::bind(listen).await;
    let listener = listener.map_err(|error| format!("cannot listen at {listen}: {error}; choose another"))?;
    let stage = Stage::new(&options.ensemble);
    let path = stage.own_path(&options.path);
    stage.play(scenario(&stage, &path, listener, options.serve)).await
}

async fn scenario(stage: &Stage, path: &str, listener: TcpListener, for_ever: bool) -> Result<()> {
    let address = listener.local_addr()?;
    let service = Arc::new(Service::start(stage, path).await?);
    println!("The page is at http://{address}/health, of a service at {path}, on {stage}");
    let serving = tokio::spawn(serve(listener, Arc::clone(&service)));
    let mut told = vec![until(status_becomes(address, 200)).await??];
    if let Some(server) = stage.embedded() {
        println!("the connection is lost");
        server.refuse(&service.client);
        server.disconnect(&service.client);
        told.push(until(status_becomes(address, 503)).await??);
        println!("the servers can be reached again");
        server.heal();
        told.push(until(status_becomes(address, 200)).await??);
    }
    if for_ever {
        serving.await??;
    }
    let told: Vec<_> = told.iter().map(u16::to_string).collect();
    println!("\nThe page said {}.", told.join(", "));
    Ok(())
}

/// A service, with everything that its page reports.
struct Service {
    client: Client,
    latch: LeaderLatch,
    member: GroupMember,
}

impl Service {
    async fn start(stage: &Stage, path: &str) -> Result<Service> {
        let client = stage.connect().await?;
        let latch = LeaderLatch::builder(&client, format!("{path}/leader")).id("api-1").start()?;
        let member = GroupMember::builder(&client, format!("{path}/group"), "api-1").wait().join().await?;
        until(latch.wait_for_leadership()).await??;
        Ok(Service { client, latch, member })
    }

    /// Returns the status of the page, and the page. Sends no request to ZooKeeper and does not wait.
    fn health(&self) -> (u16, Value) {
        // Whether it leads does not count: a service that waits for the leadership is healthy, too.
        let status = if self.client.connection_state().is_connected() { 200 } else { 503 };
        let page = json!({
            "connection": self.client.connection_state(),
            "last_error": self.client.last_error().map(|error| error.to_string()),
            "election": self.latch.state().get(),
            "group": {
                "node": self.member.state().get(),
                "members": self.member.members().into_keys().collect::<Vec<_>>(),
                "confirmed_seconds_ago": self.member.snapshot().age().as_secs(),
            },
            "requests": self.client.request_counts(),
        });
        (status, page)
    }
}

/// How long a visitor may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest head of a request that is read.
const MOST_BYTES: u64 = 8 * 1024;

/// Answers each request.
async fn serve(listener: TcpListener, service: Arc<Service>) -> Result<()> {
    loop {
        let (connection, _) = listener.accept().await?;
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            // The service ignores visitors that are slow or gone.
            let _ = tokio::time::timeout(PATIENCE, answer(connection, &service)).await;
        });
    }
}

async fn answer(mut connection: TcpStream, service: &Service) -> Result<()> {
    let mut lines = BufReader::new((&mut connection).take(MOST_BYTES)).lines();
    let asked = lines.next_line().await?.unwrap_or_default();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let (status, page) = match asked.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/health", _] => service.health(),
        _ => (404, json!({"error": "ask for GET /health"})),
    };
    let reason = match status {
        200 => "OK",
        404 => "Not Found",
        _ => "Service Unavailable",
    };
    let page = format!("{page:#}\n");
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        page.len()
    );
    connection.write_all((head + &page).as_bytes()).await?;
    connection.shutdown().await?;
    Ok(())
}

/// Requests the page, as a load balancer does, until it has this status. Prints what it reports.
async fn status_becomes(address: SocketAddr, status: u16) -> Result<u16> {
    loop {
        let mut connection = TcpStream::connect(address).await?;
        let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let (head, page) = answer.split_once("\r\n\r\n").ok_or("the answer has no end of its head")?;
        if head.starts_with(&format!("HTTP/1.1 {status} ")) {
            let page: Value = serde_json::from_str(page)?;
            let (connection, election) = (&page["connection"], &page["election"]["status"]);
            println!("{status}: the connection is {connection}, the service in the election {election}");
            return Ok(status);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
