//! Replicate: sessions of this host, kept by a backup host that can take over.

mod announce;
mod chain;
mod commit;
mod hot_swap;
mod idle;
mod install;
mod keys;
mod send;

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers,
    NOTHING_MORE, Nanos, Replicas, Spec, Topic, Ty,
};
use thruway_elements_support::call::Call;
use thruway_packet::Batch;
use thruway_replication::{Active, Backup, Key, Link};
use thruway_sync::atomic::Ordering;

use announce::Announcement;
use chain::chain;
use commit::Commit;
use idle::Idle;
use install::Installer;
use send::{CHANGES, Sender};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Replicate>(
    Spec {
        name: "Replicate",
        topic: Topic::Sessions,
        summary: "keeps the sessions of this host at a backup host, which can take over",
        docs: "Two hosts run the same configuration, one with TO, which serves the traffic, and \
               one with LISTEN, the backup. The active host streams its sessions (keys, lives, \
               translations of NAT, decisions of StatefulFirewall) to the backup, over TCP. The \
               backup drops all packets until it takes over: when the takeover handler is written, \
               or by itself when it had all sessions and the active host has been silent for AFTER \
               (0: never by itself). Then it announces each ADDRESS, by ARP or unsolicited \
               neighbour advertisements, and serves the traffic with the same ports and decisions. \
               A hot swap keeps the role and the stream; TO, LISTEN and KEY stay as they are. \
               A host that learns from its backup that this has \
               taken over serves no more traffic (fenced); restart it as the other's backup. An \
               active host that begins serves nothing until its backup lets it in, or HOLD has \
               passed.\n\n\
               Each ADDRESS is one or more IP addresses, of either version, and an Ethernet address \
               that both hosts have at one network, or - where nothing is announced, as routes lead \
               there. Put Replicate right behind the devices: packets of network N enter by \
               input N and leave by output N; with K networks, announcements for network N leave \
               by output K+N, to its device.\n\n\
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
               so long is dropped (uncommitted). A host that has taken over has no backup: packets \
               leave.\n\n\
               Both hosts have the same secret in the file KEY, which only its owner may read; \
               frames are signed (HMAC-SHA-256), not encrypted. Streams without the key, of \
               another version, repeated or malformed are refused, logged and counted. The stream \
               never holds packets up: what finds no room in its queues is made good by a transfer \
               of all sessions, as when a stream begins.\n\n\
               Sessions are those of IPv4 and IPv6 with ports, of a FlowClassifier in the same \
               thread: one thread only is supported. All \
               functions with sessions must be NAT or StatefulFirewall. Without output commit, sessions \
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
            Arg::keyword("TO", Ty::Any, "the backup's IP address and TCP port, of the active host"),
            Arg::keyword("LISTEN", Ty::Any, "where the backup listens: IP address and TCP port"),
            Arg::required_keyword("KEY", Ty::File, "file with the secret that both hosts have"),
            Arg::keyword("AFTER", Ty::Time, "silence after which the backup takes over; 0: never")
                .or("0"),
            Arg::keyword(
                "HOLD",
                Ty::Time,
                "longest time that an active host that begins waits for its backup's word",
            )
            .or("1s"),
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

/// Time between two looks at what changed, nanoseconds.
const TICK_NS: i64 = 5_000_000;
/// The same while packets may wait for the backup.
const COMMIT_TICK_NS: i64 = 500_000;
/// The timers.
const TICK: u32 = 0;
const ANNOUNCE: u32 = 1;
/// A tick that comes later than this after the one before it is late.
const LATE_NS: i64 = 50_000_000;

/// The role of this host.
enum Role {
    /// Serves traffic, and sends its sessions.
    Active(Sender),
    /// Installs sessions of the other host.
    Backup(Installer),
    /// Has taken over from the other host.
    Successor,
    /// The other host has taken over.
    Retired,
}

impl Role {
    fn name(&self) -> &'static str {
        match self {
            Role::Active(_) | Role::Successor => "active",
            Role::Backup(_) => "backup",
            Role::Retired => "retired",
        }
    }
}

/// The threads of the stream.
enum Threads {
    None,
    Active(#[expect(dead_code, reason = "it ends when it is dropped")] Active),
    Backup(#[expect(dead_code, reason = "it ends when it is dropped")] Backup),
}

#[derive(Handlers)]
#[handler(
    read, name = "role", "active, backup, or retired: the other host has taken over",
    get = self.role.name()
)]
#[handler(
    read, name = "connected", "whether there is a stream to or from the other host",
    get = self.link.stream().is_some()
)]
#[handler(
    read, name = "synchronized", "of the backup: whether it has had all sessions",
    get = matches!(&self.role, Role::Backup(backup) if backup.is_synchronized())
)]
#[handler(
    read, name = "sent", "records sent; of the backup: received",
    get = self.link.counts.sent.load(Ordering::Relaxed)
)]
#[handler(
    read, name = "acknowledged", "records that the backup acknowledged",
    get = self.link.counts.acknowledged.load(Ordering::Relaxed)
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
struct Replicate {
    /// Whether it begins as the active host: of TO.
    begins_active: bool,
    role: Role,
    link: Arc<Link>,
    threads: Threads,
    /// What the stream began with: see [`chain()`].
    chain: String,
    other: SocketAddr,
    key: String,
    after: Option<Duration>,
    /// How long to wait for the backup's word, nanoseconds.
    hold: i64,
    /// Until when; 0 once that is over.
    held_until: i64,
    /// When the last tick was, and since when ticks have come in time.
    ticked: i64,
    steady_since: i64,
    announcement: Announcement,
    /// Whether there are inputs for output commit.
    commits: bool,
    commit: Option<Commit>,
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
    let link = Arc::new(Link::default());
    let commit = Commit::of(args)?;
    let commit = (args.env().inputs > announcement.networks()).then_some(commit);
    if commit.is_some() {
        link.hurry();
    }
    let (other, role) = match (address("TO")?, address("LISTEN")?) {
        (Some(_), None) if after > 0 => {
            return Err(args.error("AFTER", "is the backup's: write it with LISTEN").into());
        }
        (Some(to), None) => (to, Role::Active(Sender::new(Arc::clone(&link)))),
        (None, Some(listen)) => (listen, Role::Backup(Installer::new(Arc::clone(&link)))),
        _ => {
            let why = "write TO IP:PORT on the active host, or LISTEN IP:PORT on the backup";
            return Err(args.error("TO", why).into());
        }
    };
    Ok(Box::new(Replicate {
        begins_active: matches!(role, Role::Active(_)),
        role,
        link,
        threads: Threads::None,
        chain: String::new(),
        other,
        key: args.get("KEY")?,
        after: (after > 0).then(|| Duration::from_nanos(after)),
        hold: args.get::<Nanos>("HOLD")?.0.max(0),
        held_until: 0,
        ticked: 0,
        steady_since: 0,
        announcement,
        commits: commit.is_some(),
        commit,
        foreign: None,
        was_whole: false,
        has_served: false,
        serve: args.text("SERVE").and_then(Call::parse),
        retire: args.text("RETIRE").and_then(Call::parse),
    }))
}

impl Replicate {
    /// Why packets go no further, if they do not.
    fn idle(&self) -> Option<Idle> {
        match self.role {
            Role::Active(_) if self.held_until > 0 => Some(Idle::Held),
            Role::Active(_) | Role::Successor => None,
            Role::Backup(_) => Some(Idle::Standby),
            Role::Retired => Some(Idle::Fenced),
        }
    }

    /// Notes a tick. Where ticks were late this process stood still, and has not listened: the
    /// other host's silence counts from then on.
    fn note_tick(&mut self, now: i64) {
        if now.saturating_sub(self.ticked) > LATE_NS {
            self.steady_since = now;
        }
        self.ticked = now;
    }

    /// Whether the active host has been silent for long enough, while this one listened.
    fn is_abandoned(&self, now: i64) -> bool {
        let listened = Duration::from_nanos(now.saturating_sub(self.steady_since).max(0) as u64);
        self.after.is_some_and(|after| self.link.silence().min(listened) > after)
    }

    /// An active host that begins serves no traffic until its backup has let it in, or was not
    /// reached for a while: it may have been replaced.
    fn end_hold(&mut self, now: i64) {
        if self.held_until > 0 && (self.link.stream().is_some() || now >= self.held_until) {
            self.held_until = 0;
        }
    }

    /// Interval of ticks, nanoseconds.
    fn tick_ns(&self) -> i64 {
        let is_paired = matches!(self.role, Role::Active(_) | Role::Backup(_));
        if self.commit.is_some() && is_paired { COMMIT_TICK_NS } else { TICK_NS }
    }

    /// Serves the traffic from now on.
    fn take_over(&mut self, cx: &mut Cx<'_>, why: &str) {
        if let Role::Backup(installer) = &mut self.role {
            self.link.set_taken_over();
            installer.finish(cx);
            self.role = Role::Successor;
            cx.log(&format!("Replicate: this host serves the traffic now: {why}"));
            self.announcement.begin(cx.now());
            self.announce(cx);
            self.call(cx);
        }
    }

    /// Makes the call that goes with a change of what this host does.
    fn call(&mut self, cx: &mut Cx<'_>) {
        let serves = self.idle().is_none();
        if std::mem::replace(&mut self.has_served, serves) != serves
            && let Some(call) = if serves { &self.serve } else { &self.retire }
        {
            call.write_later(cx);
        }
    }

    fn write_takeover(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if !matches!(self.role, Role::Backup(_)) {
            return Err(HandlerError::refused("only a backup takes over: see the handler role"));
        }
        self.take_over(cx, "by its handler takeover");
        Ok(())
    }

    fn announce(&mut self, cx: &mut Cx<'_>) {
        if let Some(next) = self.announcement.send(cx) {
            cx.set_timer(ANNOUNCE, next);
        }
    }

    fn tick(&mut self, cx: &mut Cx<'_>) {
        self.note_tick(cx.now());
        self.end_hold(cx.now());
        let is_abandoned = self.is_abandoned(cx.now());
        match &mut self.role {
            Role::Active(_) if self.link.is_taken_over() => {
                self.role = Role::Retired;
                self.commit.iter_mut().for_each(|commit| commit.abandon(cx));
            }
            Role::Active(sender) => {
                sender.tick(cx);
                if let Some(commit) = &mut self.commit {
                    commit.release(cx, sender.ledger());
                }
            }
            Role::Backup(installer) => {
                installer.tick(cx);
                if installer.is_synchronized() && is_abandoned {
                    let silence = self.link.silence();
                    self.take_over(cx, &format!("the active host was silent for {silence:.0?}"));
                }
            }
            Role::Successor | Role::Retired => {}
        }
        self.call(cx);
        while let Some(line) = self.link.line() {
            cx.log(&format!("Replicate: {line}"));
        }
    }
}

impl Element for Replicate {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let (key, chain) =
            (Key::of_file(&self.key).map_err(|error| error.to_string())?, chain(cx)?);
        self.begin_stream(cx, key, chain)?;
        (self.ticked, self.steady_since) = (cx.now(), cx.now());
        if let (Role::Active(_), Some(flows)) = (&self.role, cx.flows()) {
            flows.log_changes(CHANGES);
            if self.commits {
                flows.mark_changes();
            }
        }
        cx.set_timer(TICK, cx.now().saturating_add(self.tick_ns()));
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        match (self.idle(), &mut self.role, &mut self.commit) {
            (Some(why), ..) => cx.drop_all(why, batch),
            (None, Role::Active(sender), Some(commit)) if port >= self.announcement.networks() => {
                if commit.offer(cx, sender.ledger(), port, batch) {
                    sender.send_now(cx);
                }
            }
            _ => cx.pass_on(port, batch),
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == ANNOUNCE {
            return self.announce(cx);
        }
        self.tick(cx);
        cx.set_timer(TICK, cx.now().saturating_add(self.tick_ns()));
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.threads = Threads::None;
        Ok(())
    }
}
