//! One connection through the proxy: each direction is read into a queue and carried on from there as the
//! fault of the moment allows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::script::{How, Script};
use super::wire::{self, Framer, Piece};
use super::{Fault, Request, Shared, lock};
use crate::support::runtime::rig;

/// How long a connection that one end has closed is kept for the other.
const LINGER: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(5);

/// A piece that a reader forwards.
#[derive(Debug)]
enum Arrival {
    Piece(Instant, Piece),
    End(Instant, How),
}

/// The state of one connection.
#[derive(Debug)]
struct Connection {
    shared: Arc<Shared>,
    /// The client has closed its end, maybe with requests still queued.
    client_gone: AtomicBool,
    /// Everything is swallowed from now on.
    silent: AtomicBool,
    /// The number of the request whose answer is to be lost.
    losing: Mutex<Option<(i32, Script)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

/// Whether something may be carried on.
enum Admission {
    /// Yes; it was held back by a black hole or not.
    Carry { held: bool },
    /// It is lost.
    Lose,
}

/// Serves an accepted connection in the background.
pub(super) fn serve(mut client: TcpStream, shared: Arc<Shared>) {
    let id = shared.enter();
    let connection = Connection {
        shared,
        client_gone: AtomicBool::new(false),
        silent: AtomicBool::new(false),
        losing: Mutex::new(None),
    };
    rig().spawn(async move {
        let _ = client.set_nodelay(true);
        let mut server = None;
        let how = tokio::select! {
            how = connection.ended_from_outside(id) => how,
            how = connection.carry(&mut client, &mut server) => how,
        };
        // No answer came for it: the fault waits for the next request.
        if let Some((_, script)) = lock(&connection.losing).take() {
            lock(&connection.shared.scripts).insert(0, script);
        }
        // The server always sees a FIN: a RST would discard requests that it has not read yet.
        if let Some(server) = server {
            rig().spawn(close(server));
        }
        if how == How::Rst {
            let _ = client.set_zero_linger();
            drop(client);
        } else {
            let _ = client.shutdown().await;
            rig().spawn(close(client));
        }
        connection.shared.leave(id);
    });
}

/// Closes with a FIN. Bytes that were not read would turn it into a RST, so they are read.
async fn close(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut buffer = [0; 4096];
    let rest = async { while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {} };
    let _ = timeout(LINGER, rest).await;
}

impl Connection {
    /// Waits until a fault or an order to cut ends the connection.
    async fn ended_from_outside(&self, id: u64) -> How {
        let mut fault = self.shared.fault.subscribe();
        let mut cut = self.shared.cut.subscribe();
        tokio::select! {
            ended = fault.wait_for(|(fault, _)| matches!(fault, Fault::Reset | Fault::Refuse)) => match ended {
                Ok(fault) if fault.0 == Fault::Reset => How::Rst,
                _ => How::Fin,
            },
            ended = cut.wait_for(|cut| id < cut.below) => ended.map_or(How::Fin, |cut| cut.how),
        }
    }

    /// Carries both directions until one of them ends the connection.
    async fn carry(&self, client: &mut TcpStream, server: &mut Option<TcpStream>) -> How {
        let (mut from_client, mut to_client) = client.split();
        let (queue, requests) = unbounded_channel();
        let rest = async {
            self.until_fault(|fault| fault != Fault::BlackHole).await;
            if self.client_gone.load(Ordering::SeqCst) {
                return How::Fin;
            }
            let upstream = *lock(&self.shared.upstream);
            let Ok(Ok(connected)) = timeout(CONNECT, TcpStream::connect(upstream)).await else {
                return How::Rst;
            };
            let _ = connected.set_nodelay(true);
            let (mut from_server, mut to_server) = server.insert(connected).split();
            let (queue, answers) = unbounded_channel();
            tokio::select! {
                how = self.carry_answers(answers, &mut to_client) => how,
                how = self.carry_requests(requests, &mut to_server) => how,
                how = self.read(Way::ToClient, &mut from_server, queue) => how,
            }
        };
        tokio::select! {
            how = rest => how,
            how = self.read(Way::ToServer, &mut from_client, queue) => how,
        }
    }

    async fn until_fault(&self, wanted: impl Fn(Fault) -> bool) {
        let _ = self.shared.fault.subscribe().wait_for(|(fault, _)| wanted(*fault)).await;
    }

    /// Reads whole pieces into the queue. Never returns: the end of the stream passes through the queue as
    /// well.
    async fn read(&self, way: Way, from: &mut (impl AsyncRead + Unpin), queue: UnboundedSender<Arrival>) -> How {
        let mut framer = Framer::default();
        let mut buffer = vec![0; 64 * 1024];
        let mut first = true;
        let end = loop {
            let count = match from.read(&mut buffer).await {
                Ok(0) => break How::Fin,
                Ok(count) => count,
                Err(_) => break How::Rst,
            };
            framer.feed(&buffer[..count]);
            while let Some(piece) = framer.next() {
                if let (true, Way::ToClient, Piece::Frame(frame)) = (first, way, &piece) {
                    self.shared.saw_session(frame);
                }
                first = false;
                let _ = queue.send(Arrival::Piece(Instant::now(), piece));
            }
        };
        if let Some(piece) = framer.finish() {
            let _ = queue.send(Arrival::Piece(Instant::now(), piece));
        }
        if way == Way::ToServer {
            self.client_gone.store(true, Ordering::SeqCst);
        }
        let _ = queue.send(Arrival::End(Instant::now(), end));
        std::future::pending().await
    }

    /// Waits until the fault of the moment lets something pass that arrived at `arrived`.
    async fn admit(&self, way: Way, arrived: Instant) -> Admission {
        let mut fault = self.shared.fault.subscribe();
        let mut held = false;
        loop {
            let (now, _) = *fault.borrow_and_update();
            match now {
                Fault::DropAnswers if way == Way::ToClient => return Admission::Lose,
                Fault::HoldAnswers if way == Way::ToClient => {
                    let _ = fault.changed().await;
                }
                Fault::BlackHole => {
                    held = true;
                    let _ = fault.changed().await;
                }
                Fault::Delay(delay) if Instant::now() < arrived + delay => {
                    tokio::select! {
                        _ = fault.changed() => {}
                        () = sleep_until(arrived + delay) => {}
                    }
                }
                _ => return Admission::Carry { held },
            }
        }
    }

    async fn carry_requests(
        &self,
        mut queue: UnboundedReceiver<Arrival>,
        server: &mut (impl AsyncWrite + Unpin),
    ) -> How {
        let mut first = true;
        while let Some(arrival) = queue.recv().await {
            let (Arrival::Piece(at, _) | Arrival::End(at, _)) = arrival;
            if let Admission::Carry { held: true } = self.admit(Way::ToServer, at).await
                && self.client_gone.load(Ordering::SeqCst)
            {
                return How::Fin;
            }
            let piece = match arrival {
                Arrival::Piece(_, piece) => piece,
                Arrival::End(_, How::Fin) if !self.silent.load(Ordering::SeqCst) => {
                    // Only half closed, maybe: the answers still get some time.
                    let _ = server.shutdown().await;
                    sleep(LINGER).await;
                    return How::Fin;
                }
                Arrival::End(..) => return How::Fin,
            };
            if self.silent.load(Ordering::SeqCst) {
                continue;
            }
            // The first frame opens the connection and has no header.
            if let (false, Piece::Frame(frame)) = (first, &piece)
                && let Some((number, op)) = wire::request(frame)
            {
                lock(&self.shared.requests).push(Request { at: at.into_std(), op });
                if let Some(script) = self.shared.take_script(op) {
                    if !script.forward {
                        match script.fire() {
                            How::Silence => {
                                self.silent.store(true, Ordering::SeqCst);
                                continue;
                            }
                            how => return how,
                        }
                    }
                    *lock(&self.losing) = Some((number, script));
                }
            }
            first = false;
            let (Piece::Frame(bytes) | Piece::Raw(bytes)) = &piece;
            if server.write_all(bytes).await.is_err() {
                return How::Rst;
            }
        }
        How::Fin
    }

    async fn carry_answers(
        &self,
        mut queue: UnboundedReceiver<Arrival>,
        client: &mut (impl AsyncWrite + Unpin),
    ) -> How {
        while let Some(arrival) = queue.recv().await {
            let (Arrival::Piece(at, _) | Arrival::End(at, _)) = arrival;
            if let Admission::Lose = self.admit(Way::ToClient, at).await {
                // After a lost answer the later ones make no sense to the client.
                self.until_fault(|fault| fault != Fault::DropAnswers).await;
                return How::Fin;
            }
            if self.silent.load(Ordering::SeqCst) {
                continue;
            }
            let piece = match arrival {
                Arrival::Piece(_, piece) => piece,
                Arrival::End(_, how) => return how,
            };
            if let Piece::Frame(frame) = &piece
                && let Some(script) = self.lost(frame)
            {
                match script.fire() {
                    How::Silence => {
                        self.silent.store(true, Ordering::SeqCst);
                        continue;
                    }
                    how => return how,
                }
            }
            let (Piece::Frame(bytes) | Piece::Raw(bytes)) = &piece;
            if client.write_all(bytes).await.is_err() {
                return How::Rst;
            }
        }
        How::Fin
    }

    /// The fault that swallows this answer, if one does.
    fn lost(&self, answer: &[u8]) -> Option<Script> {
        let number = wire::answered(answer)?;
        let (_, script) = lock(&self.losing).take_if(|(losing, _)| *losing == number)?;
        Some(script)
    }
}
