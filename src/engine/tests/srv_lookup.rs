//! The SRV records of a name server that a test plays.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, Record as DnsRecord};
use tokio::net::UdpSocket;

use crate::engine::srv::{Record, lookup_with};

/// Answers one question after the other on a port of its own.
async fn name_server(answer: impl Fn(&mut Message, Name) + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let at = socket.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let question = Message::from_vec(&buffer[..length]).expect("a question");
            let mut message = question.clone().into_response();
            answer(&mut message, question.queries[0].name().clone());
            socket.send_to(&message.to_vec().expect("short"), from).await.expect("sent");
        }
    });
    at
}

/// Looks up a name at a name server, once.
async fn looked_up(at: SocketAddr, name: &str) -> io::Result<Vec<Record>> {
    let mut connection = ConnectionConfig::udp();
    connection.port = at.port();
    let server = NameServerConfig::new(at.ip(), true, vec![connection]);
    let config = ResolverConfig::from_parts(None, vec!["elsewhere.example.".parse().expect("a name")], vec![server]);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.options_mut().attempts = 0;
    lookup_with(&builder.build().expect("a resolver"), name).await
}

#[tokio::test]
async fn each_record_names_a_server_and_its_port() {
    let at = name_server(|message, name| {
        assert_eq!(name.to_ascii(), "_zookeeper._tcp.example.", "no search domain");
        for (target, port, priority, weight) in [("zk1.example.", 2181, 10, 5), ("zk2.example.", 2182, 20, 0)] {
            let srv = SRV::new(priority, weight, port, target.parse().expect("a name"));
            message.answers.push(DnsRecord::from_rdata(name.clone(), 30, RData::SRV(srv)));
        }
    });
    let records = looked_up(at.await, "_zookeeper._tcp.example").await.expect("records");
    let found: Vec<_> = records.iter().map(|it| (it.endpoint.to_string(), it.priority, it.weight)).collect();
    assert_eq!(found, [("zk1.example:2181".to_owned(), 10, 5), ("zk2.example:2182".to_owned(), 20, 0)]);
}

/// RFC 2782: the root as the target means that there is no such service.
#[tokio::test]
async fn a_name_without_servers_gives_none_or_says_why() {
    let at = name_server(|message, name| {
        let srv = SRV::new(0, 0, 0, Name::root());
        message.answers.push(DnsRecord::from_rdata(name, 30, RData::SRV(srv)));
    });
    assert_eq!(looked_up(at.await, "_zookeeper._tcp.example.").await.expect("an answer"), []);
    let at = name_server(|message, _| message.metadata.response_code = ResponseCode::NXDomain).await;
    let error = looked_up(at, "_zookeeper._tcp.example").await.expect_err("no name");
    assert_eq!(error.to_string(), "there is no such name");
    let error = looked_up(name_server(|_, _| {}).await, "example").await.expect_err("no records");
    assert_eq!(error.to_string(), "it has no SRV records");
}
