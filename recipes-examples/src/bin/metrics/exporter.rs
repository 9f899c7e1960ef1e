//! The exporter for Prometheus, and what it shows.

use std::net::{SocketAddr, TcpListener};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use recipes_examples::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_recipes::metrics::{METRICS, MetricKind, describe};

/// Serves the metrics of this process.
pub(crate) struct Exporter {
    address: SocketAddr,
}

/// What the exporter shows at one moment.
pub(crate) struct Scrape(String);

impl Exporter {
    /// Installs the recorder, and serves what it records. Must be called inside the runtime.
    pub(crate) fn install(listen: SocketAddr) -> Result<Exporter> {
        let address = free(listen).map_err(|error| format!("cannot listen at {listen}: {error}; choose another"))?;
        let mut builder = PrometheusBuilder::new().with_http_listener(address);
        for metric in METRICS {
            if metric.kind == MetricKind::Histogram {
                let name = Matcher::Full(metric.name.to_owned());
                builder = builder.set_buckets_for_metric(name, metric.buckets)?;
            }
        }
        builder.install()?;
        describe();
        Ok(Exporter { address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads the metrics as Prometheus does.
    pub(crate) async fn read(&self) -> Result<Scrape> {
        let mut connection = TcpStream::connect(self.address).await?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        connection.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer has no end of its head")?;
        if !head.starts_with("HTTP/1.1 200") {
            return Err(format!("the exporter answers: {head}").into());
        }
        Ok(Scrape(body.to_owned()))
    }
}

/// Returns the address, with a free port in place of port 0.
fn free(listen: SocketAddr) -> std::io::Result<SocketAddr> {
    TcpListener::bind(listen)?.local_addr()
}

impl Scrape {
    /// Returns the sum of all values of a metric that have these labels. The name lacks the prefix that all names have
    /// in common.
    pub(crate) fn value(&self, name: &str, labels: &[&str]) -> f64 {
        let values = self.0.lines().filter_map(|line| {
            let rest = line.strip_prefix("zookeeper_recipes_")?.strip_prefix(name)?;
            let is_it = rest.starts_with(['{', ' ']) && labels.iter().all(|label| rest.contains(label));
            is_it.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
        });
        values.sum()
    }
}
