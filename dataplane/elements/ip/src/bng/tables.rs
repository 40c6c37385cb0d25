//! A gateway's tables, shared by its replicas: packets look up without a lock, handlers change.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::OnceLock;

use parking_lot::Mutex;
use thruway_element::{ArgErrors, Args, Cost, HandlerError, Load, Operation};
use thruway_lpm::{Fib4, Route4};
use thruway_table::{AgingTable, DenseTable, Found};
use thruway_wire::MacAddr;

use super::entries::{Item, Line, Name, Reading, Subscriber, TUNNEL_BITS, Tunnel, VLAN_BITS};
use crate::route_table::{bare, read_file};
use thruway_elements_support::reaching::{looking_up, routing};

/// Of prefixes up to this length, where subscribers were seen is not searched when they go: it
/// counts no more anyway, and ages.
const SEARCHED_LEN: u8 = 24;
/// Set in the key of every tunnel's end, since the table has no key 0.
const PEER: u64 = 1 << 32;
/// Ends of tunnels that the table has room for.
const PEERS: usize = 1 << TUNNEL_BITS;

/// Where an address of a subscriber was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) line: Line,
    pub(super) mac: MacAddr,
    pub(super) port: u16,
}

impl Location {
    #[inline]
    fn pack(self) -> [u64; 2] {
        [self.line.0.into(), self.mac.to_u64() << 16 | u64::from(self.port)]
    }

    #[inline]
    fn unpack([line, location]: [u64; 2]) -> Location {
        Location {
            line: Line(line as u32),
            mac: MacAddr::from_u64(location >> 16),
            port: location as u16,
        }
    }
}

/// The key of an address in the table of places.
#[inline]
fn location_key(key: u32, addr: u32) -> u64 {
    u64::from(key) << 32 | u64::from(addr)
}

pub(super) struct Tables {
    reading: Reading,
    /// By line.
    subscribers: DenseTable<2>,
    /// By GRE key and address.
    locations: AgingTable<2>,
    /// By number.
    tunnels: DenseTable<3>,
    /// The ends of tunnels, by address.
    peers: AgingTable<1>,
    /// Routes: prefixes to tunnels, with tunnel numbers stored as ports.
    routes: Fib4,
    /// The line that has a GRE key. A thread that changes any of the tables holds the lock.
    keys: Mutex<HashMap<u32, Line>>,
    /// How reading FILE went, once it was read.
    file: OnceLock<Result<(), String>>,
}

impl Tables {
    /// Tables with the entries of the arguments; `capacity` subscribers, with learnt locations that
    /// expire after `timeout` nanoseconds.
    pub(super) fn build(
        args: &Args<'_>,
        reading: Reading,
        capacity: usize,
        timeout: i64,
    ) -> Result<Tables, ArgErrors> {
        let failed = |error: &dyn std::fmt::Display| ArgErrors::whole(error.to_string());
        let tables = Tables {
            reading,
            subscribers: DenseTable::new(2 * VLAN_BITS, capacity)
                .map_err(|error| failed(&error))?,
            locations: AgingTable::new(capacity, timeout),
            tunnels: DenseTable::new(TUNNEL_BITS, 1 << TUNNEL_BITS).map_err(|e| failed(&e))?,
            // They do not age.
            peers: AgingTable::new(PEERS, 0),
            routes: Fib4::new().map_err(|error| failed(&error))?,
            keys: Mutex::new(HashMap::new()),
            file: OnceLock::new(),
        };
        let mut errors = Vec::new();
        for (index, text) in args.rest() {
            if let Err(message) = tables.add(text, false) {
                errors.push(args.rest_error(index, message));
            }
        }
        if errors.is_empty() { Ok(tables) } else { Err(ArgErrors(errors)) }
    }

    /// What packets look up, of which as many go up, to the core, as come down.
    pub(super) fn costs(&self, load: &Load) -> Vec<Cost> {
        let (up, down) = (0.5, 0.5);
        let lines = (self.subscribers.numbers().len(), self.subscribers.entry_bytes());
        let locations = (self.locations.entries(0).len(), self.locations.entry_bytes());
        let tunnels = (self.tunnels.numbers().len(), self.tunnels.entry_bytes());
        let peers = (self.peers.entries(0).len(), self.peers.entry_bytes());
        let look_up = |operation: Operation, share, table| {
            looking_up(operation.times(share), table, 2.0, load)
        };
        let route = routing(Operation::RouteLookup, self.routes.footprint(), load);
        vec![
            look_up(Operation::ArrayLookup, 1.0, lines),
            look_up(Operation::HashLearn, up, locations),
            Cost { count: up, ..route },
            look_up(Operation::ArrayLookup, up, tunnels),
            look_up(Operation::HashLookup, down, peers),
            look_up(Operation::HashLookup, down, locations),
        ]
    }

    /// The GRE key of the subscriber on this line, and whether `addr` belongs to it.
    #[inline]
    pub(super) fn subscriber(&self, line: Line, addr: u32) -> Option<(u32, bool)> {
        self.subscribers.get(line.0).map(|packed| Subscriber::owns(packed, addr))
    }

    /// Whether an address belongs to the subscriber on a line.
    pub(super) fn is_own(&self, line: Line, addr: u32) -> bool {
        self.subscriber(line, addr).is_some_and(|(_, own)| own)
    }

    /// The tunnel that leads to an address.
    #[inline]
    pub(super) fn tunnel_to(&self, addr: u32) -> Option<Tunnel> {
        let route = self.routes.lookup_route(addr)?;
        self.tunnels.get(route.port).map(Tunnel::unpack)
    }

    /// Whether tunnels end at this address.
    #[inline]
    pub(super) fn is_peer(&self, addr: u32) -> bool {
        self.peers.find(PEER | u64::from(addr), 0).is_some()
    }

    /// Notes where an address of a subscriber is.
    #[inline]
    pub(super) fn learn(&self, key: u32, addr: u32, location: Location, now: i64) {
        // Where there is no room packets to the address are dropped, and counted, there.
        let _ = self.locations.learn(location_key(key, addr), location.pack(), now);
    }

    /// Location of a subscriber's address, for packets with this key, if the key's owner still has
    /// the address.
    #[inline]
    pub(super) fn locate(&self, key: u32, addr: u32, now: i64) -> Option<Location> {
        let location = Location::unpack(self.locations.find(location_key(key, addr), now)?);
        // Handlers may have changed the subscriber since it was noted.
        (self.subscriber(location.line, addr)? == (key, true)).then_some(location)
    }

    fn current(&self, line: Line) -> Option<Subscriber> {
        self.subscribers.get(line.0).and_then(Subscriber::unpack)
    }

    fn has(&self, name: Name) -> bool {
        match name {
            Name::Subscriber(line) => self.subscribers.get(line.0).is_some(),
            Name::Tunnel(number) => self.tunnels.get(number).is_some(),
            Name::Route(prefix) => self.routes.get(prefix).is_some(),
        }
    }

    /// Enters what `text` says; where there is such an entry, only if it may be replaced.
    fn add(&self, text: &str, replace: bool) -> Result<(), String> {
        let item = self.reading.item(text)?;
        let mut keys = self.keys.lock();
        if !replace && self.has(item.name()) {
            return Err(format!("there is an entry {} already", item.name()));
        }
        match item {
            Item::Subscriber(line, subscriber, location) => {
                self.put_subscriber(&mut keys, line, subscriber, location)
            }
            Item::Tunnel(number, tunnel) => {
                let done = self.tunnels.set(number, tunnel.pack());
                done.map_err(|error| error.to_string())?;
                self.note_peers()
            }
            Item::Route(prefix, tunnel) => {
                if self.tunnels.get(tunnel).is_none() {
                    return Err(format!("there is no tunnel {tunnel}"));
                }
                let route = Route4 { gateway: 0, port: tunnel };
                self.routes.replace(prefix, route).map(drop).map_err(|error| error.to_string())
            }
        }
    }

    fn put_subscriber(
        &self,
        keys: &mut HashMap<u32, Line>,
        line: Line,
        subscriber: Subscriber,
        location: Option<(MacAddr, u16)>,
    ) -> Result<(), String> {
        let key = subscriber.key;
        if let Some(other) = keys.get(&key).filter(|other| **other != line) {
            return Err(format!("key {key} is that of SUBSCRIBER {other}"));
        }
        let before = self.current(line);
        self.subscribers.set(line.0, subscriber.pack()).map_err(|error| error.to_string())?;
        if let Some(before) = before {
            self.forget(keys, before);
        }
        keys.insert(key, line);
        let Some((mac, port)) = location else { return Ok(()) };
        let location = Location { line, mac, port }.pack();
        let fixed = self.locations.fix(location_key(key, subscriber.prefix.first()), location, 0);
        fixed.map_err(|why| format!("{why}; the subscriber was added, its location will be learnt"))
    }

    /// Removes a subscriber's key and locations.
    fn forget(&self, keys: &mut HashMap<u32, Line>, subscriber: Subscriber) {
        keys.remove(&subscriber.key);
        if subscriber.prefix.len() >= SEARCHED_LEN {
            for addr in subscriber.prefix.first()..=subscriber.prefix.last() {
                self.locations.remove(location_key(subscriber.key, addr));
            }
        }
    }

    /// Makes the table of tunnels' ends that of the tunnels.
    fn note_peers(&self) -> Result<(), String> {
        let tunnels = self.tunnels.numbers().into_iter().filter_map(|n| self.tunnels.get(n));
        let remotes: Vec<u64> =
            tunnels.map(|packed| PEER | u64::from(Tunnel::unpack(packed).remote)).collect();
        self.peers.retain(|peer| remotes.contains(&peer.key));
        remotes.iter().try_for_each(|peer| self.peers.fix(*peer, [0], 0)).map_err(str::to_owned)
    }

    fn remove(&self, text: &str) -> Result<(), String> {
        let name = self.reading.name(text)?;
        let mut keys = self.keys.lock();
        if !self.has(name) {
            return Err(format!("there is no entry {name}"));
        }
        match name {
            Name::Subscriber(line) => {
                let subscriber = self.current(line);
                self.subscribers.remove(line.0);
                subscriber.into_iter().for_each(|subscriber| self.forget(&mut keys, subscriber));
                Ok(())
            }
            Name::Tunnel(number) => {
                if let Some((prefix, _)) =
                    self.routes.routes().into_iter().find(|(_, route)| route.port == number)
                {
                    return Err(format!(
                        "ROUTE {prefix} leads to tunnel {number}; remove it first"
                    ));
                }
                self.tunnels.remove(number);
                self.note_peers()
            }
            Name::Route(prefix) => {
                self.routes.remove(prefix).map(drop).map_err(|error| error.to_string())
            }
        }
    }

    /// Enters the entries of a file, a line each; the first replica that asks reads it.
    ///
    /// # Errors
    /// The errors in the file, with the line's number.
    pub(super) fn load(&self, file: &str) -> Result<(), String> {
        let read = || {
            let text = read_file(file).map_err(|error| format!("FILE {file}: {error}"))?;
            for (at, line) in text.lines().enumerate() {
                let line = bare(line, "#");
                if !line.is_empty() {
                    let added = self.add(line, false);
                    added.map_err(|error| format!("FILE {file}, line {}: {error}", at + 1))?;
                }
            }
            Ok(())
        };
        self.file.get_or_init(read).clone()
    }

    /// The write handlers.
    pub(super) fn write(&self, name: &str, value: &str) -> Result<(), HandlerError> {
        let done = match name {
            "add" => self.add(value, false),
            "set" => self.add(value, true),
            "remove" => self.remove(value),
            _ => return Err(HandlerError::no_write(name)),
        };
        done.map_err(|why| HandlerError::refused(format!("{name}: {why}")))
    }

    /// The read handlers.
    pub(super) fn read(&self, name: &str, now: i64) -> Result<String, HandlerError> {
        let mut text = String::new();
        let _alone = self.keys.lock();
        match name {
            "subscribers" => {
                for line in self.subscribers.numbers().into_iter().map(Line) {
                    let Some(Subscriber { key, prefix }) = self.current(line) else { continue };
                    let _ = writeln!(text, "{line} {key} {prefix}");
                }
            }
            "tunnels" => {
                for number in self.tunnels.numbers() {
                    let Some(packed) = self.tunnels.get(number) else { continue };
                    let _ = writeln!(text, "{number} {}", Tunnel::unpack(packed));
                }
            }
            "routes" => {
                for (prefix, route) in self.routes.routes() {
                    let _ = writeln!(text, "{prefix} {}", route.port);
                }
            }
            "places" => {
                for Found { key, fixed, .. } in self.locations.entries(now) {
                    let (key, addr) = ((key >> 32) as u32, key as u32);
                    let Some(location) = self.locate(key, addr, now) else { continue };
                    let Location { line, mac, port } = location;
                    let (addr, mac) = (Ipv4Addr::from(addr), mac.dashed());
                    let note = if fixed { " static" } else { "" };
                    let _ = writeln!(text, "{line} {key} {addr} {mac} {port}{note}");
                }
            }
            _ => return Err(HandlerError::no_read(name)),
        }
        Ok(text)
    }
}
