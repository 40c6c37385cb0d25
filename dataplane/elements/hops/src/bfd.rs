//! BFD: whether another host is there.

mod session;

use std::any::Any;
use std::net::IpAddr;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Handlers, HotSwap, Nanos,
    Operation, Purpose, Reason, Replicas, Spec, Topic, Ty, handler_value, reasons,
};
use thruway_elements_support::call::Call;
use thruway_elements_support::random::Secret;
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::bfd::{self, BfdHeader, BfdState};

use crate::underlay::{Accepted, IpFields, Underlay, addresses, datagram};
use session::{Change, Config, Ignored, Session};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "BFD",
        topic: Topic::Hops,
        summary: "finds out within milliseconds whether another host is there",
        docs: "Speaks bidirectional forwarding detection (RFC 5880) with the host DST of the same \
               link, from SRC: asynchronous mode over a single hop (RFC 5881, UDP port 3784), no \
               authentication, no echo. Packets that begin with an IPv4 or IPv6 header leave by \
               output 0, marked, with the destination annotation set; those that come enter \
               likewise. What is no BFD packet from DST to SRC leaves by output 1, or is dropped \
               where there is none; what is ignored (wrong fields, other sessions, a hop limit \
               below 255: it is not from this link) is dropped.\n\n\
               Both sides send every TX or more slowly if the other takes no more (its RX), with \
               up to a quarter less at random. After MULTIPLIER of the other side's times without \
               a packet the session is down: with TX and RX 20ms and 3 on both sides after 60 ms. \
               Until it is up, a packet goes out once a second. Threads that sleep, or are busy \
               for longer than that, miss packets.\n\n\
               UP and DOWN are handler calls, made when the session comes up or goes down: 'DOWN \
               b.drain 0 now, UP b.resume 0' has a Balance pass over replica 0, and 'DOWN s.switch \
               1' turns a Switch. A hot swap keeps the session.",
        example: "a :: BFD(192.0.2.1, 192.0.2.2, TX 10ms, RX 10ms, UP turn.switch 1) \
                  -> b :: BFD(192.0.2.2, 192.0.2.1, TX 10ms, RX 10ms) -> a; \
                  Idle -> turn :: Switch(0); turn[0] -> Discard; turn[1] -> Discard; \
                  Script(wait 2.5, print a.state, stop)",
        ports: "1/1-2",
        processing: "h/h",
        args: &[
            Arg::required("SRC", Ty::Str, "source address, IPv4 or IPv6"),
            Arg::required("DST", Ty::Str, "the other host's, of the same version"),
            Arg::keyword("TX", Ty::Time, "time between packets that this side sends").or("20ms"),
            Arg::keyword("RX", Ty::Time, "least time between packets that it takes").or("20ms"),
            Arg::keyword("MULTIPLIER", Ty::UInt, "missed packets that end the session, 1 to 255")
                .or("3"),
            Arg::keyword("UP", Ty::Any, "handler call when the session comes up"),
            Arg::keyword("DOWN", Ty::Any, "handler call when it goes down"),
        ],
        drops: NotTaken::DROPS,
        handlers: &[
            Handler::read("state", "admin-down, down, init or up"),
            Handler::read("remote_state", "the other side's, as it said last"),
            Handler::read("diagnostic", "why the session went down last: a number of RFC 5880"),
            Handler::read("detection", "seconds without a packet after which it is down"),
            Handler::read("ups", "how often it came up"),
            Handler::read("downs", "how often it went down"),
            Handler::both("enabled", "false holds it down, and reports that to the other side"),
        ],
        cost: &[Operation::HeaderParse.times(2.0)],
        replicas: Replicas::OneThread("it has one session"),
        purpose: Purpose::SendUnasked,
        ..Spec::DEFAULT
    },
    build,
)
.with_hot_swap::<Bfd>()
.with_handlers::<Bfd>();

reasons! {
    /// Why a packet changes nothing, or that it did.
    enum NotTaken {
        NotBfd = "not-bfd": "it is no BFD packet of a single hop from DST to SRC",
        HopLimit = "hop-limit": "its hop limit is below 255: it is not from this link",
        Field = "bad-field": "version, length, multiplier or a flag has a value that none may have",
        Discriminator = "other-session": "its number of the session is not this one's",
        Authenticated = "authenticated": "it has an authentication section, which is not supported",
        AdminDown = "admin-down": "this side is held down",
        Taken = consumed "taken": "a packet that was taken",
    }
}

impl From<Ignored> for NotTaken {
    fn from(ignored: Ignored) -> NotTaken {
        match ignored {
            Ignored::Field => NotTaken::Field,
            Ignored::Discriminator => NotTaken::Discriminator,
            Ignored::Authenticated => NotTaken::Authenticated,
            Ignored::AdminDown => NotTaken::AdminDown,
        }
    }
}

/// Hop limit of what is sent and accepted (RFC 5881 section 5).
const HOP_LIMIT: u8 = 255;
/// Differentiated services of control traffic: CS6 (RFC 4594 section 3.1).
const DSCP: u8 = 48;
/// Longest and shortest TX and RX, in microseconds: an hour, and what a timer can do.
const TIME_US: std::ops::RangeInclusive<i64> = 1_000..=3_600_000_000;

struct Bfd {
    addresses: (IpAddr, IpAddr),
    underlay: Underlay,
    src_port: u16,
    config: Config,
    /// Made when the element is initialised, or taken over.
    session: Option<Session>,
    secret: Secret,
    up: Option<Call>,
    down: Option<Call>,
}

fn microseconds(args: &Args<'_>, name: &str) -> Result<u32, ArgErrors> {
    let Nanos(ns) = args.get(name)?;
    match ns / 1_000 {
        us if TIME_US.contains(&us) => Ok(us as u32),
        _ => Err(args.error(name, "must be from 1ms to an hour").into()),
    }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let (src, dst) = addresses(args)?;
    let multiplier = match args.get::<u8>("MULTIPLIER")? {
        0 => return Err(args.error("MULTIPLIER", "must be from 1 to 255").into()),
        multiplier => multiplier,
    };
    let fields = IpFields { ttl: HOP_LIMIT, dscp: DSCP, dont_fragment: true };
    let mut secret = Secret::of_element(args, None);
    let ports = u64::from(u16::MAX - bfd::SOURCE_PORT_MIN) + 1;
    Ok(Box::new(Bfd {
        addresses: (src, dst),
        underlay: Underlay::new((src, dst), bfd::PORT, fields, true, 0),
        src_port: bfd::SOURCE_PORT_MIN + secret.below(ports) as u16,
        config: Config {
            desired_min_tx_us: microseconds(args, "TX")?,
            required_min_rx_us: microseconds(args, "RX")?,
            multiplier,
        },
        session: None,
        secret,
        up: args.text("UP").and_then(Call::parse),
        down: args.text("DOWN").and_then(Call::parse),
    }))
}

impl Bfd {
    fn session(&mut self, now: i64) -> &mut Session {
        let (config, secret) = (self.config, &mut self.secret);
        // An attacker that cannot see the session cannot guess the number, and so cannot end it.
        self.session.get_or_insert_with(|| Session::new(config, secret.next_u64() as u32, now))
    }

    /// Updates the session with a received packet.
    fn receive(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Result<(), NotTaken> {
        let accepted = Accepted { port: bfd::PORT, zero_checksum: false };
        let outer = datagram(packet.data(), accepted).map_err(|_| NotTaken::NotBfd)?;
        if (outer.dst, outer.src) != self.addresses {
            return Err(NotTaken::NotBfd);
        }
        if outer.ttl != HOP_LIMIT {
            return Err(NotTaken::HopLimit);
        }
        let payload = packet.data().get(outer.from..outer.to).unwrap_or(&[]);
        let (header, _) = BfdHeader::parse(payload).map_err(|_| NotTaken::Field)?;
        let now = cx.now();
        let (change, answer) = self.session(now).receive(header, now)?;
        self.report(cx, change);
        self.emit(cx, answer);
        self.act(cx);
        Ok(())
    }

    /// Does what is due, and sleeps until more is.
    fn act(&mut self, cx: &mut Cx<'_>) {
        let (now, jitter) = (cx.now(), self.secret.next_u64());
        let session = self.session(now);
        let (change, packet) = session.act(now, jitter);
        let due_at = session.due_at();
        self.report(cx, change);
        self.emit(cx, packet);
        cx.clear_timer(0);
        cx.set_timer(0, due_at);
    }

    fn report(&self, cx: &mut Cx<'_>, change: Change) {
        let call = match change {
            Change::None => return,
            Change::Up => &self.up,
            Change::Down => &self.down,
        };
        if let Some(call) = call {
            call.write_later(cx);
        }
    }

    fn emit(&mut self, cx: &mut Cx<'_>, header: Option<BfdHeader>) {
        let Some(header) = header else { return };
        let mut bytes = [0; BfdHeader::LEN];
        // It is as long as that.
        let _ = header.emit(&mut bytes);
        let Some(mut packet) = cx.packet(&bytes) else { return };
        cx.count_made(1);
        match self.underlay.push(&mut packet, self.src_port, &[]) {
            Ok(()) => cx.emit(0, packet),
            // A packet this short is never too long.
            Err(_) => cx.drop(Reason::NO_MEMORY, packet),
        }
    }
}

impl Element for Bfd {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let now = cx.now();
        let due_at = self.session(now).due_at();
        cx.set_timer(0, due_at.max(now));
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            match self.receive(cx, &packet) {
                Ok(()) => cx.drop(NotTaken::Taken, packet),
                Err(why @ NotTaken::NotBfd) => cx.reject(1, why, packet),
                Err(why) => cx.drop(why, packet),
            }
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.act(cx);
    }
}

fn state_name(state: BfdState) -> &'static str {
    match state {
        BfdState::AdminDown => "admin-down",
        BfdState::Down => "down",
        BfdState::Init => "init",
        BfdState::Up => "up",
    }
}

impl Handlers for Bfd {
    fn read_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let session = self.session(cx.now());
        Ok(match name {
            "state" => state_name(session.state).to_owned(),
            "remote_state" => state_name(session.remote_state).to_owned(),
            "diagnostic" => session.diagnostic.to_string(),
            "detection" => (session.detection_ns() as f64 / 1e9).to_string(),
            "ups" => session.ups.to_string(),
            "downs" => session.downs.to_string(),
            "enabled" => (session.state != BfdState::AdminDown).to_string(),
            _ => return Err(HandlerError::no_read(name)),
        })
    }

    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        if name != "enabled" {
            return Err(HandlerError::no_write(name));
        }
        let now = cx.now();
        let change = self.session(now).set_enabled(handler_value(name, value)?, now);
        self.report(cx, change);
        self.act(cx);
        Ok(())
    }
}

impl HotSwap for Bfd {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let session = self.session.take()?;
        Some(Box::new((self.addresses, self.src_port, session)))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(state) = state.downcast::<((IpAddr, IpAddr), u16, Session)>() else { return };
        let (addresses, src_port, session) = *state;
        if addresses == self.addresses {
            self.src_port = src_port;
            self.session = Some(session.with(self.config));
        }
    }
}
