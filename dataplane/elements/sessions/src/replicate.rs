//! Replicate: sessions of this host, kept by a backup host that can take over.

mod announce;
mod chain;
mod commit;
mod drain;
mod held;
mod hot_swap;
mod idle;
mod install;
mod keys;
mod lease;
mod role;
mod roles;
mod send;
mod states;
mod tick;
mod tunnel;

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Nanos,
    Replicas, Spec, Topic, Ty,
};
use thruway_elements_support::call::Call;
use thruway_packet::Batch;
use thruway_replication::{Key, Link, Peer, Side, Term};
use thruway_sync::atomic::Ordering;

use announce::Announcement;
use chain::Chain;
use commit::Commit;
use held::Held;
use idle::Idle;
use install::Installer;
use lease::Leasing;
use role::Role;
use send::{CHANGES, Sender};
use states::{Pace, States};
use tunnel::Tunnel;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Replicate>(
    Spec {
        name: "Replicate",
        topic: Topic::Sessions,
        summary: "keeps the sessions of this host at a backup host, which can take over",
        docs: "Two hosts run the same configuration: the one with TO connects to the one with \
               LISTEN, and serves the traffic at first; the other one is its backup. The active \
               host streams its sessions (keys, lives, \
               translations of NAT, decisions of StatefulFirewall, scratch of Nf) to the backup, over TCP. The \
               backup drops all packets until it takes over: when the takeover handler is written, \
               or by itself when it had all sessions and the active host has been silent for AFTER \
               (0: never by itself). Then it announces each ADDRESS, by ARP or unsolicited \
               neighbour advertisements, and serves the traffic with the same ports and decisions. \
               Whoever served before is its backup from then on, as soon as it reaches it, also \
               after a restart. A host that begins serves nothing until it has reached the other \
               one, or HOLD has passed; it becomes the backup if the other one has the sessions. \
               A hot swap keeps the role and the stream; TO, LISTEN and KEY stay as they are.\n\n\
               The handler switchover of the active host has the backup serve while packets flow, \
               without loss: the active host sends its last changes, and passes packets that still \
               come to it on to the other one for 3 s. It holds packets back until isolated functions \
               have returned those that they have, and sends their scratch then.\n\n\
               Scratch of a session of an isolated function is sent again when packets may have \
               changed it: within STATE_TIME, with at most STATE_RATE bytes per second for all \
               sessions; what does not fit takes turns. Changes after that are lost with the active \
               host, also with output commit. Both hosts must run the same program of each function, \
               with the same arguments and CONFIG: otherwise the stream is refused and the log names the \
               function. Functions with STREAM, VM or several WORKERS are refused.\n\n\
               Each ADDRESS is one or more IP addresses, of either version, and an Ethernet address \
               that both hosts have at one network, or - where nothing is announced, as routes lead \
               there. Put Replicate right behind the devices: packets of network N enter by \
               input N and leave by output N; with K networks, announcements for network N leave \
               by output K+N, to its device.\n\n\
               WITNESS is the address of a Witness on a third host, for both hosts: a host that \
               reaches neither its backup nor the witness serves no traffic (unleased) once its \
               lease, of LEASE, has ended, and a backup takes over only with a lease. So no two \
               hosts serve at once. AFTER, WITNESS and LEASE are the same on both hosts then.\n\n\
               SERVE and RETIRE are handler calls, made when this host begins to serve the traffic \
               and when it no longer does: 'SERVE routes.active true, RETIRE routes.active false' \
               has KernelRoutes announce routes of the host that serves, by a routing daemon.\n\n\
               Output commit: with K networks and 2K inputs, a packet for network N that enters by \
               input K+N leaves by output K+N, to its device, once the backup has acknowledged the \
               last change of the packet's session (the first reply, its establishment, a FIN, a RST). \
               Others of its session behind it wait, too; packets without a session do not. So a \
               chain has it for the classes that it leads there. At most COMMIT_PACKETS wait \
               (further ones are dropped: commit-full), each for COMMIT_TIME at most. Then, with \
               COMMIT_LATE PASS, a line is logged, and packets leave without waiting (counted by \
               uncommitted) until the backup has all sessions again; with DROP a packet that waited \
               so long is dropped (uncommitted). A host that has taken over waits for nobody until \
               the other one is its backup.\n\n\
               Both hosts have the same secret in the file KEY, which only its owner may read; \
               frames are signed (HMAC-SHA-256), not encrypted. Streams without the key, of \
               another version, repeated or malformed are refused, logged and counted. The stream \
               never holds packets up: what finds no room in its queues is made good by a transfer \
               of all sessions, as when a stream begins.\n\n\
               Sessions are those of IPv4 and IPv6 with ports, of a FlowClassifier in the same \
               thread: one thread only is supported. All \
               functions with sessions must be NAT, StatefulFirewall, Nf or functions of streams. Of \
               the last, sessions begin anew at the other host, but for TCP connections that TCPIn \
               guards or changes. With STREAMS replicate these go on if all functions in them can \
               (WordMatcher that masks, removes or replaces, without HOLD), and all is known: with \
               output commit always, else if they were idle, or, nearly all, by a switchover. \
               Others, and all with STREAMS close, are reset at both ends (handlers continued and \
               unreplicated of TCPIn).\n\n\
               Without output commit, sessions \
               that begin within about 10 ms of the active host's end are lost. See docs/replication.md.",
        example: "rep :: Replicate(192.0.2.1 02:00:00:00:00:01, TO 198.51.100.2:7070, KEY /etc/thruway/key);\n\
                  Idle -> rep -> Strip(14) -> CheckIPHeader -> FlowClassifier(INPUT ip) \
                  ~> StatefulFirewall(allow all) -> Discard;\n\
                  rep[1] -> Discard",
        ports: "1-/2-",
        processing: "h/h",
        flow: "#/#",
        args: &[
            Arg::rest("ADDRESS", Ty::Rule("IP... ETH or -"), "addresses that both hosts have"),
            Arg::keyword("TO", Ty::Any, "the other host's IP address and TCP port"),
            Arg::keyword("LISTEN", Ty::Any, "where this host listens: IP address and TCP port"),
            Arg::required_keyword("KEY", Ty::File, "file with the secret that both hosts have"),
            Arg::keyword("AFTER", Ty::Time, "silence after which the backup takes over; 0: never")
                .or("0"),
            Arg::keyword(
                "HOLD",
                Ty::Time,
                "longest time that a host that begins waits for the other one",
            )
            .or("1s"),
            Arg::keyword("WITNESS", Ty::Any, "the Witness's IP address and TCP port"),
            Arg::keyword("LEASE", Ty::Time, "how long the witness grants a term").or("300ms"),
            Arg::keyword("STATE_TIME", Ty::Time, "time in which scratch that packets changed is sent")
                .or("100ms"),
            Arg::keyword("STATE_RATE", Ty::Bandwidth, "most bytes of that per second")
                .or("100Mbps"),
            Arg::keyword("COMMIT_PACKETS", Ty::UInt, "packets that wait for the backup at most")
                .or("4096"),
            Arg::keyword("COMMIT_TIME", Ty::Time, "longest time that a packet waits for it")
                .or("50ms"),
            Arg::keyword(
                "COMMIT_LATE",
                Ty::Choice(&["PASS", "DROP"]),
                "what becomes of a packet that waited so long",
            )
            .or("PASS"),
            Arg::keyword(
                "STREAMS",
                Ty::Choice(&["replicate", "close"]),
                "what becomes of TCP connections that functions guard or change",
            )
            .or("replicate"),
            Arg::keyword("SERVE", Ty::Any, "handler call when this host begins to serve"),
            Arg::keyword("RETIRE", Ty::Any, "handler call when it serves no longer"),
        ],
        drops: Idle::DROPS,
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::OneThread("sessions of one thread are replicated"),
        ..Spec::DEFAULT
    },
    build,
)
.with_hot_swap::<Replicate>();

/// The timers.
const TICK: u32 = 0;
const ANNOUNCE: u32 = 1;

#[derive(Handlers)]
#[handler(
    read, name = "role", "active, backup, or switching-over for a moment",
    get = self.role.name()
)]
#[handler(
    read, name = "connected", "whether there is a stream to or from the other host",
    get = self.link.stream().is_some()
)]
#[handler(
    read, name = "synchronized", "whether the backup has had all sessions",
    get = self.is_synchronized()
)]
#[handler(
    read, name = "term", "number of changes of the active host, as far as this one knows",
    get = self.term.number()
)]
#[handler(
    read, name = "leased", "whether this host may serve: without a WITNESS always",
    get = cx.now() < self.leased_until
)]
#[handler(
    read, name = "sent", "records sent to the other host",
    get = self.link.counts.sent.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "received", "records received from the other host",
    get = self.link.counts.received.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "passed_on", "packets passed on to the other host after a switchover",
    get = self.link.counts.passed_on.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "acknowledged", "records that the other host acknowledged",
    get = self.link.counts.acknowledged.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "passing", "whether packets that still come are passed on to the other host",
    get = self.role != Role::Active && cx.now() < self.hurry_until
)]
#[handler(
    read, name = "changed", "sessions whose functions had packets since they were sent",
    get = self.sender.count_changed(cx)
)]
#[handler(
    read, name = "resent", "times that a session was sent again for that",
    get = self.sender.resent
)]
#[handler(
    read, name = "lag", "records of this stream that are not acknowledged yet",
    get = self.link.counts.lag.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "resyncs", "transfers of all sessions",
    get = self.link.counts.resyncs.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "overflows", "times that changes of sessions found no room",
    get = self.link.counts.overflows.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "refused", "streams that were refused, or ended for an invalid batch",
    get = self.link.counts.refused.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "unusable", "sessions that this host could not go on with",
    get = self.link.counts.unusable.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "waiting", "packets that wait for the backup",
    get = self.commit.as_ref().map_or(0, Commit::len)
)]
#[handler(
    read, name = "synchronous", "whether packets wait for the backup at present",
    get = self.commit.as_ref().is_some_and(Commit::is_synchronous)
)]
#[handler(
    read, name = "committed", "packets that waited, and left when the backup had their sessions",
    get = self.commit.as_ref().map_or(0, |commit| commit.committed)
)]
#[handler(
    read, name = "uncommitted", "packets that left though the backup did not have their sessions",
    get = self.commit.as_ref().map_or(0, |commit| commit.uncommitted)
)]
#[handler(
    read, name = "lapses", "times that the backup was too late, and packets waited no more",
    get = self.commit.as_ref().map_or(0, |commit| commit.lapses)
)]
#[handler(
    write, name = "takeover", "has the backup serve the traffic; the value is not read",
    write = self.write_takeover(cx)
)]
#[handler(
    write, name = "switchover", "has the other host serve the traffic, without loss; the value is not read",
    write = self.write_switchover(cx)
)]
struct Replicate {
    role: Role,
    /// The last term that the element has followed.
    term: Term,
    link: Arc<Link>,
    /// The threads that speak with the other host, once there are any.
    peer: Option<Peer>,
    sender: Sender,
    installer: Installer,
    tunnel: Tunnel,
    /// What the stream began with: see [`Chain`].
    chain: String,
    /// How many elements there are.
    elements: u32,
    pace: Pace,
    /// Packets that came while a switchover waits for functions.
    held: Option<Held>,
    other: SocketAddr,
    key: String,
    after: Option<Duration>,
    /// How long to wait for the other host's word, nanoseconds.
    hold: i64,
    /// Until when; 0 once that is over.
    held_until: i64,
    /// Whom this host asks for leases, if somebody grants them.
    leasing: Option<Leasing>,
    /// Until when it may serve.
    leased_until: i64,
    /// This host was started, and has neither served nor had all sessions.
    is_new: bool,
    /// It is to take over, as soon as it may.
    wants_takeover: bool,
    /// By the handler `takeover`.
    is_takeover_requested: bool,
    /// A switchover is asked for, and may begin until then.
    switchover_until: Option<i64>,
    /// This host serves on after a switchover of which the other one may hear yet.
    has_resumed: bool,
    /// Until when packets may be passed on between the hosts.
    hurry_until: i64,
    /// When the last tick was, and since when ticks have come in time.
    ticked: i64,
    steady_since: i64,
    announcement: Announcement,
    /// Whether there are inputs for output commit.
    commits: bool,
    /// Whether packets wait there: not at a host that took over, until it has a backup.
    commits_now: bool,
    commit: Option<Commit>,
    /// Connections of streams go on at the other host, where they can.
    streams_go_on: bool,
    /// The state of another pair's host, which this one replaces and cannot go on with.
    foreign: Option<Box<dyn Any + Send>>,
    /// Whether the backup that this one replaces had all sessions, and no transfer went on.
    was_whole: bool,
    /// Whether this host served the traffic when its calls were made last.
    has_served: bool,
    serve: Option<Call>,
    retire: Option<Call>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let announcement = Announcement::of(args)?;
    let address = |name| -> Result<Option<SocketAddr>, ArgError> {
        let Some(text) = args.text(name) else { return Ok(None) };
        let why = |_| args.error(name, format!("'{text}': expected IP:PORT, as 192.0.2.1:7070"));
        text.trim().parse().map(Some).map_err(why)
    };
    let after: Nanos = args.get("AFTER")?;
    let after = u64::try_from(after.0).map_err(|_| args.error("AFTER", "must not be negative"))?;
    let (other, side) = match (address("TO")?, address("LISTEN")?) {
        (Some(to), None) => (to, Side::Caller),
        (None, Some(listen)) => (listen, Side::Listener),
        _ => {
            let why = "write TO IP:PORT on the host that serves first, or LISTEN IP:PORT on its \
                       backup";
            return Err(args.error("TO", why).into());
        }
    };
    let after = (after > 0).then(|| Duration::from_nanos(after));
    let leasing = Leasing::of(args, address("WITNESS")?, after)?;
    let link = Arc::new(Link::new(side));
    let commit = Commit::of(args)?;
    let commit = (args.env().inputs > announcement.networks()).then_some(commit);
    if commit.is_some() {
        link.hurry();
    }
    Ok(Box::new(Replicate {
        role: if side == Side::Caller { Role::Active } else { Role::Backup },
        term: Term::default(),
        peer: None,
        sender: Sender::new(Arc::clone(&link)),
        installer: Installer::new(Arc::clone(&link)),
        tunnel: Tunnel::new(Arc::clone(&link)),
        link,
        chain: String::new(),
        elements: 0,
        pace: Pace::of(args)?,
        held: None,
        other,
        key: args.get("KEY")?,
        after,
        hold: args.get::<Nanos>("HOLD")?.0.max(0),
        held_until: 0,
        leased_until: if leasing.is_some() { i64::MIN } else { i64::MAX },
        leasing,
        is_new: true,
        wants_takeover: false,
        is_takeover_requested: false,
        switchover_until: None,
        has_resumed: false,
        hurry_until: i64::MIN,
        ticked: 0,
        steady_since: 0,
        announcement,
        commits: commit.is_some(),
        commits_now: true,
        commit,
        streams_go_on: args.choice("STREAMS")? == 0,
        foreign: None,
        was_whole: false,
        has_served: false,
        serve: args.text("SERVE").and_then(Call::parse),
        retire: args.text("RETIRE").and_then(Call::parse),
    }))
}

impl Replicate {
    /// Whether this host serves traffic, if it may.
    fn serves(&self) -> bool {
        self.role == Role::Active && self.held_until == 0
    }

    /// Whether there is a backup that has had all sessions.
    fn is_synchronized(&self) -> bool {
        match self.role {
            Role::Active => self.sender.complete_stream().is_some(),
            Role::SwitchingOver { .. } => true,
            Role::Backup => self.installer.is_synchronized(),
        }
    }

    /// What both hosts must have in common.
    fn chain(&self, cx: &mut Cx<'_>) -> Result<Chain, String> {
        let mut chain = Chain::of(cx)?;
        chain.text += &self.leasing.as_ref().map(Leasing::text).unwrap_or_default();
        Ok(chain)
    }

    /// Makes the call that goes with a change of what this host does.
    fn call(&mut self, cx: &mut Cx<'_>) {
        let serves = self.serves() && cx.now() < self.leased_until;
        if std::mem::replace(&mut self.has_served, serves) != serves
            && let Some(call) = if serves { &self.serve } else { &self.retire }
        {
            call.write_later(cx);
        }
    }

    fn announce(&mut self, cx: &mut Cx<'_>) {
        if self.role == Role::Active
            && let Some(next) = self.announcement.send(cx)
        {
            cx.set_timer(ANNOUNCE, next);
        }
    }
}

impl Element for Replicate {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let (key, chain) =
            (Key::of_file(&self.key).map_err(|error| error.to_string())?, self.chain(cx)?);
        self.begin_stream(cx, key, chain.text)?;
        let states = States::new(self.pace, &chain.functions);
        self.sender.follow_states(states, chain.states_len_max);
        self.elements = (0..).take_while(|node| cx.describe(*node).is_some()).count() as u32;
        (self.ticked, self.steady_since) = (cx.now(), cx.now());
        self.sender.set_goes_on(self.streams_go_on && cx.transfers().has_connections());
        if let Some(flows) = cx.flows() {
            flows.log_changes(CHANGES);
            if self.commits {
                flows.mark_changes();
            }
        }
        cx.set_timer(TICK, cx.now().saturating_add(self.tick_ns(cx.now())));
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let is_processed = port >= self.announcement.networks();
        // What is under way in the chain leaves, also while this host switches over.
        let commits = is_processed && self.role != Role::Backup && self.commits_now;
        if let Some(commit) = self.commit.as_mut().filter(|_| commits) {
            let waits = commit.offer(cx, self.sender.ledger(), port, batch);
            if waits && self.role == Role::Active {
                self.sender.send_now(cx);
            }
        } else if self.serves() && cx.now() >= self.leased_until {
            cx.drop_all(Idle::Unleased, batch);
        } else if self.serves() && self.held.is_some() && !is_processed {
            self.hold(cx, port, batch);
        } else if self.serves() {
            cx.pass_on(port, batch);
        } else if is_processed {
            cx.drop_all(Idle::Standby, batch);
        } else if self.role == Role::Active {
            cx.drop_all(Idle::Held, batch);
        } else {
            self.pass_on(cx, port, batch);
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == ANNOUNCE {
            return self.announce(cx);
        }
        self.tick(cx);
        cx.set_timer(TICK, cx.now().saturating_add(self.tick_ns(cx.now())));
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.drop_held(cx, Idle::Held);
        self.peer = None;
        Ok(())
    }
}
