//! How often each peer may call: a token bucket for each address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Calls and connections of a peer in a second, in the long run.
pub const RATE: f64 = 50.0;

/// Calls and connections that a peer may make at once.
pub const BURST: f64 = 200.0;

/// Connections of a peer at a time.
pub const PEER_CONNECTIONS_MAX: u32 = 32;

/// Peers that are known at a time; those beyond share one bucket.
const PEERS_MAX: usize = 4096;

/// Stands for all peers beyond [`PEERS_MAX`].
const OTHERS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// What is known of a peer.
#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
    connections: u32,
}

impl Bucket {
    /// As full as it is by now.
    fn refill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * RATE).min(BURST);
        self.at = now;
    }

    /// Whether forgetting it changes nothing.
    fn is_idle(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.connections == 0 && self.left >= BURST
    }
}

/// The buckets.
#[derive(Debug, Default)]
pub struct Rates {
    peers: Mutex<BTreeMap<IpAddr, Bucket>>,
}

impl Rates {
    /// Takes one call from a peer's bucket; whether there was one.
    pub fn take(&self, peer: IpAddr) -> bool {
        self.with(peer, |_, bucket| {
            let has = bucket.left >= 1.0;
            if has {
                bucket.left -= 1.0;
            }
            has
        })
    }

    /// Begins a connection, which counts as a call; `None` if it may not be. Its end is that of
    /// what is returned.
    pub fn open(self: &Arc<Self>, peer: IpAddr) -> Option<PeerConnection> {
        let key = self.with(peer, |key, bucket| {
            let may = bucket.connections < PEER_CONNECTIONS_MAX && bucket.left >= 1.0;
            may.then(|| {
                bucket.connections += 1;
                bucket.left -= 1.0;
                key
            })
        })?;
        Some(PeerConnection { rates: Arc::clone(self), key })
    }

    fn with<T>(&self, peer: IpAddr, change: impl FnOnce(IpAddr, &mut Bucket) -> T) -> T {
        let now = Instant::now();
        let mut peers = self.peers.lock();
        let mut key = network(peer);
        if !peers.contains_key(&key) && peers.len() >= PEERS_MAX {
            peers.retain(|_, bucket| !bucket.is_idle(now));
            if peers.len() >= PEERS_MAX {
                key = OTHERS;
            }
        }
        let new = || Bucket { left: BURST, at: now, connections: 0 };
        let bucket = peers.entry(key).or_insert_with(new);
        bucket.refill(now);
        change(key, bucket)
    }
}

/// A connection of a peer.
#[derive(Debug)]
pub struct PeerConnection {
    rates: Arc<Rates>,
    key: IpAddr,
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        if let Some(bucket) = self.rates.peers.lock().get_mut(&self.key) {
            bucket.connections = bucket.connections.saturating_sub(1);
        }
    }
}

/// A host of IPv6 has a whole /64 of addresses.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn burst(rates: &Rates, peer: IpAddr) -> usize {
        (0..10_000).take_while(|_| rates.take(peer)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_has_a_burst_and_a_rate_and_takes_nothing_from_others() {
        let rates = Rates::default();
        assert_eq!(burst(&rates, PEER), 200);
        assert_eq!(burst(&rates, "::ffff:127.0.0.1".parse().expect("an address")), 0);
        let (one, same) = ("2001:db8::1", "2001:db8::ffff:1");
        let other = "2001:db8:0:1::1";
        let parsed = |text: &str| text.parse().expect("an address");
        assert_eq!(burst(&rates, parsed(one)), 200);
        assert_eq!(burst(&rates, parsed(same)), 0);
        assert_eq!(burst(&rates, parsed(other)), 200);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(burst(&rates, PEER), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn many_peers_take_bounded_memory_and_connections_are_counted() {
        let rates = Arc::<Rates>::default();
        let open = |_| rates.open(PEER).expect("a place");
        let mut permits: Vec<PeerConnection> = (0..PEER_CONNECTIONS_MAX).map(open).collect();
        assert!(rates.open(PEER).is_none());
        for host in 0..100_000u32 {
            rates.take(IpAddr::V4(host.into()));
        }
        assert!(rates.peers.lock().len() <= PEERS_MAX + 1);
        tokio::time::advance(Duration::from_secs(60)).await;
        rates.take(IpAddr::V4(1.into()));
        permits.pop();
        permits.push(rates.open(PEER).expect("a place"));
        assert!(rates.open(PEER).is_none(), "it was not forgotten");
    }
}
