//! Serving on the network: TLS alone, with bounds for each peer and for all.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::context::{Context, Peer};
use super::patient::Patient;
use super::problem::{Kind, Problem};
use super::server::{REST, Served, connection, finish};
use crate::access::sha256;

/// Connections from the network at a time; those of this host have their own places.
pub const REMOTE_CONNECTIONS_MAX: usize = 128;

/// How long a handshake may take.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);

/// First byte of a TLS connection: the type of a handshake record (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// Most that is read of a connection that is not TLS before it is closed, in bytes: what is left
/// unread would take the answer away from its reader.
const UNREAD_LEN_MAX: usize = 16 << 10;

/// A port that listens.
pub struct NetworkListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl NetworkListener {
    /// Listens. Called within a runtime.
    ///
    /// # Errors
    /// The system's.
    pub async fn bind(
        address: SocketAddr,
        config: Arc<ServerConfig>,
    ) -> io::Result<NetworkListener> {
        let listener = TcpListener::bind(address).await?;
        Ok(NetworkListener { listener, acceptor: TlsAcceptor::from(config) })
    }

    /// Where it listens: port 0 was replaced by the system's choice.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Serves until `context.ending` becomes true, then lets requests that are under way come to their
/// end.
pub async fn serve_network(listener: NetworkListener, router: Router, context: Context) {
    let NetworkListener { listener, acceptor } = listener;
    let permits = Arc::new(Semaphore::new(REMOTE_CONNECTIONS_MAX));
    let mut ending = context.ending.clone();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, from)) = accepted else {
            tokio::time::sleep(REST).await;
            continue;
        };
        // To say why would cost a handshake; so the connection is closed.
        let Some(peer_place) = context.rates.open(from.ip()) else { continue };
        let Ok(place) = Arc::clone(&permits).try_acquire_owned() else { continue };
        let (router, acceptor, ending) = (router.clone(), acceptor.clone(), ending.clone());
        connections.spawn(async move {
            let _places = (place, peer_place);
            serve_one(stream, from.ip(), acceptor, (router, ending)).await;
        });
    }
    drop(listener);
    finish(connections).await;
}

/// Serves one connection.
async fn serve_one(
    stream: TcpStream,
    address: IpAddr,
    acceptor: TlsAcceptor,
    (router, mut ending): (Router, watch::Receiver<bool>),
) {
    // Small answers are not to wait for one another.
    let _ = stream.set_nodelay(true);
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE_TIME_MAX, handshake(stream, acceptor)) => shaken,
        _ = ending.wait_for(|ending| *ending) => return,
    };
    let Ok(Some(stream)) = shaken else { return };
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = certificates.and_then(<[_]>::first).map(|one| sha256(one));
    let peer = Peer::Remote { address, certificate };
    connection(stream, Served::Router(router, peer), ending).await;
}

/// The stream within TLS; `None` if the peer does not speak it.
async fn handshake(
    stream: TcpStream,
    acceptor: TlsAcceptor,
) -> Option<TlsStream<Patient<TcpStream>>> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1) if first[0] == HANDSHAKE_RECORD => {}
        Ok(1) => {
            refuse_plain(stream).await;
            return None;
        }
        _ => return None,
    }
    acceptor.accept(Patient::new(stream)).await.ok()
}

/// Answers who speaks plain HTTP, and nothing else: no header of it is looked at.
async fn refuse_plain(mut stream: TcpStream) {
    let detail = "this port speaks TLS alone; use https://. If there was a token in the request, it \
                  was sent in the clear: revoke it";
    let body = serde_json::to_string(&Problem::new(Kind::Malformed, detail)).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    let mut left = UNREAD_LEN_MAX;
    let mut bytes = [0; 1024];
    while left > 0 && stream.ready(Interest::READABLE).await.is_ok() {
        match stream.try_read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => left = left.saturating_sub(read),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
