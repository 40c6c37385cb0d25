//! Machine: a function in a virtual machine that knows nothing of Thruway.

mod cards;
mod guests;

use std::any::Any;
use std::path::PathBuf;
use std::time::Duration;

use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Handlers, HotSwap,
    Operation, Replicas, Run, Spec, Threading, Topic, Ty,
};
use thruway_elements_support::virtio_link::{self, Lost};
use thruway_nf_host::{
    Acceleration, Backoff, Limits, Machine as Image, Patience, StandardOrder, VmSpec,
};
use thruway_packet::{Batch, MAX_BATCH};

use self::cards::Cards;
use self::guests::Guests;
use super::nf::{CPU_PERCENT, WEIGHT};
use super::settings::{Shares, numbers, size, time};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Machine",
        topic: Topic::Nf,
        summary: "runs a virtual machine of any system as a function, with standard network cards",
        docs: DOCS,
        example: "Idle -> vm :: Machine(/var/lib/firewall.qcow2, ACTIVE false) -> Discard; \
                  Idle -> [1]vm; vm[1] -> Discard",
        ports: "-/-",
        processing: "h/h",
        flow: "x/y",
        args: &[
            Arg::required("IMAGE", Ty::Str, "a disk (qcow2, raw), or a directory with a kernel"),
            Arg::keyword("MEMORY", Ty::Size, "the machine's memory").or("256M"),
            Arg::keyword("APPEND", Ty::Str, "words for the kernel's command line").or("\"\""),
            Arg::keyword("ACCELERATION", Ty::Choice(ACCELERATION), "what runs the machine")
                .or("auto"),
            Arg::keyword("CPUS", Ty::Str, "CPUs it runs on, \"1 2\"; all if not given"),
            CPU_PERCENT,
            WEIGHT,
            Arg::keyword("HANG", Ty::Time, "it is restarted when it takes nothing for longer")
                .or("10s"),
            Arg::keyword("ATTACH_TIMEOUT", Ty::Time, "time its drivers have to begin").or("120s"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether a machine serves").or("true"),
            Arg::keyword("STANDBY", Ty::Bool, "whether another one waits, booted").or("false"),
            virtio_link::QUEUE,
            virtio_link::BURST,
        ],
        drops: Lost::DROPS,
        handlers: &[
            Handler::read("state", "starting, running, restarting...; stopped without ACTIVE"),
            Handler::read("pid", "number of QEMU's process; 0 if there is none"),
            Handler::read("standby", "of the machine that waits: none, starting, ready, failed..."),
            Handler::read("takeovers", "times that the machine that waited took the other's place"),
            Handler::read("restarts", "starts after the first"),
            Handler::read("faults", "times that it broke the protocol of a card"),
            Handler::read("hangs", "times that it took nothing for longer than HANG"),
            Handler::read("last_error", "how it ended last"),
            Handler::read("console", "the end of what it wrote to its console"),
            Handler::read("sandbox", "what runs it, and what keeps QEMU apart"),
            Handler::read("cards", "of each card: state, packets and bytes each way"),
            Handler::sum("count", "packets from the guest"),
            Handler::sum("sent", "packets given to the guest"),
        ],
        threading: Threading::Task,
        cost: &[Operation::PortReceive.once()],
        replicas: Replicas::OneThread("each of its cards has one queue pair"),
        ..Spec::DEFAULT
    },
    build,
)
.with_hot_swap::<Machine>()
.with_handlers::<Machine>();

const DOCS: &str = "\
Starts a virtual machine under QEMU and keeps it running: an image of any system, with a network \
card for each input and output and nothing of Thruway in it. Its cards are virtio-net, whose other \
ends are here (vhost-user): what is pushed into input 0 is what the guest's first card receives, and \
what that card sends leaves by output 0. So a bridge, router or firewall between its first two \
cards is a function between input 0 and output 1, and input 1 and output 0.\n\
IMAGE is a disk with a boot loader (qcow2 or raw), to which nothing is ever written: a machine's \
changes go with it. Or it is a directory with the files kernel and initramfs; APPEND goes to that \
kernel. `scripts/guest-image --standard` makes one of Debian's packages that is a bridge, or runs a \
script. ACCELERATION says what runs the machine: the processor (kvm), an emulator (emulated), or the \
first that this host has (auto); handler `sandbox` tells which. QEMU runs as a user of its own, \
without network, files or rights.\n\
The machine is ready when its drivers use all cards; the configuration starts then, or fails with \
the console's end after ATTACH_TIMEOUT. One that ends (a reboot, a crash), that takes no packet for \
HANG while packets wait, or that writes to a card's rings what no driver writes, is ended and \
started again, as functions are. Meanwhile packets for it are dropped (no-guest); what it had \
received is gone with it. While it has no buffer, QUEUE packets of each card wait; what is more is \
dropped (no-buffer). A configuration that replaces this one goes on with the machine if it is the \
same.\n\
With STANDBY another machine boots, and QEMU pauses it once it is ready. It continues when the \
first one ends, which then boots again and waits in turn: so packets are dropped for about a \
second (where machines are emulated), and not for as long as one boots. With ACTIVE false as well, \
one machine waits and none serves, until a configuration has ACTIVE true. Both have the same \
addresses, each needs MEMORY, and they share no state.\n\
Cards have addresses of their own that stay (02:...), merged buffers, one queue pair, no offloads.";

/// See [`Acceleration`].
const ACCELERATION: &[&str] = &["auto", "kvm", "emulated"];

/// Most cards of a machine: slots of its bus.
const CARDS_MAX: usize = 8;

/// A machine that is started with these is the same.
#[derive(Debug, Clone, PartialEq)]
struct Settings {
    image: Image,
    memory_bytes: u64,
    cpus: Vec<usize>,
    shares: Shares,
    append: String,
    cards: usize,
    hang: Duration,
    attach_timeout: Duration,
}

/// Machines that run.
struct Running {
    settings: Settings,
    is_active: bool,
    guests: Guests,
}

struct Machine {
    settings: Settings,
    name: String,
    is_active: bool,
    has_standby: bool,
    burst: Option<usize>,
    running: Option<Running>,
    cards: Cards,
    /// Packets given to the guest when the timer was set.
    sent_before: u64,
    has_timer: bool,
    batch: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let settings = settings(args)?;
    Ok(Box::new(Machine {
        cards: Cards::of(args, settings.cards)?,
        settings,
        name: args.name().to_owned(),
        is_active: args.get("ACTIVE")?,
        has_standby: args.get("STANDBY")?,
        burst: virtio_link::burst(args)?,
        running: None,
        sent_before: 0,
        has_timer: false,
        batch: Batch::with_room(),
    }))
}

fn settings(args: &Args<'_>) -> Result<Settings, ArgError> {
    let acceleration = match args.choice("ACCELERATION")? {
        0 => Acceleration::Auto,
        1 => Acceleration::Kvm,
        _ => Acceleration::Emulated,
    };
    let image = Image { image: PathBuf::from(args.get::<String>("IMAGE")?), acceleration };
    if args.get("ACTIVE")? || args.get("STANDBY")? {
        image.check_standard().map_err(|why| args.error("IMAGE", why))?;
    }
    let cards = args.env().inputs.max(args.env().outputs);
    if !(1..=CARDS_MAX).contains(&cards) {
        let why = format!("a machine has 1 to {CARDS_MAX} cards, one for each input and output");
        return Err(args.error("IMAGE", why));
    }
    Ok(Settings {
        image,
        memory_bytes: size(args, "MEMORY")?,
        cpus: numbers(args, "CPUS")?,
        shares: Shares::of(args)?,
        append: args.get("APPEND")?,
        cards,
        hang: time(args, "HANG")?,
        attach_timeout: time(args, "ATTACH_TIMEOUT")?,
    })
}

impl Settings {
    fn spec(&self, label: &str) -> VmSpec {
        VmSpec {
            order: StandardOrder {
                label: label.to_owned(),
                machine: self.image.clone(),
                limits: Limits {
                    memory_bytes: self.memory_bytes,
                    cpus: self.cpus.clone(),
                    cpu_percent: self.shares.percent,
                    cpu_weight: self.shares.weight,
                    ..Limits::default()
                },
                cards: self.cards,
                append: self.append.clone(),
            },
            patience: Patience {
                attach: self.attach_timeout,
                hang: Some(self.hang).filter(|hang| !hang.is_zero()),
                ..Patience::default()
            },
            backoff: Backoff::default(),
        }
    }
}

impl Machine {
    /// Machines that are to be there.
    fn count(&self) -> usize {
        usize::from(self.is_active) + usize::from(self.has_standby)
    }

    /// Starts what is missing, and has a machine serve if one is to.
    fn start(&mut self) -> Result<(), String> {
        let spec = self.settings.spec(&self.name);
        let kept = self.running.take().filter(|old| !self.is_active || old.guests.serve());
        let mut running = match kept {
            Some(old) => Running { is_active: self.is_active, ..old },
            None => Running {
                settings: self.settings.clone(),
                is_active: self.is_active,
                guests: Guests::new(self.is_active)?,
            },
        };
        running.guests.fill(self.count(), &spec)?;
        running.guests.attach(&mut self.cards);
        self.running = Some(running);
        Ok(())
    }

    /// What serves may be another machine than before.
    #[inline]
    fn follow(&mut self, cx: &mut Cx<'_>) {
        if let Some(running) = &mut self.running {
            running.guests.follow(cx, &mut self.cards);
        }
    }

    /// Looks in a while whether the guest takes what waits for it.
    fn watch_for_hang(&mut self, cx: &mut Cx<'_>) {
        if self.settings.hang.is_zero() || self.has_timer || !self.cards.are_waiting() {
            return;
        }
        (self.has_timer, self.sent_before) = (true, self.cards.sent());
        // At most a day.
        let hang = self.settings.hang.as_nanos() as i64;
        cx.set_timer(0, cx.now().saturating_add(hang));
    }

    fn last_error(&self) -> String {
        let status = self.running.as_ref().and_then(|running| running.guests.status());
        status.and_then(|status| status.last_end).unwrap_or_default()
    }
}

impl Element for Machine {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.count() > 0 {
            self.start()?;
        }
        if let Some(running) = &self.running {
            running.guests.watch(cx)?;
        }
        self.cards.watch(cx)
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.follow(cx);
        self.cards.send(cx, port, batch);
        self.watch_for_hang(cx);
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        self.follow(cx);
        let burst = self.burst.unwrap_or_else(|| cx.burst()).min(MAX_BATCH);
        if self.cards.run(cx, burst, &mut self.batch) { Run::Again } else { Run::Idle }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.has_timer = false;
        if self.cards.are_waiting()
            && self.cards.sent() == self.sent_before
            && let Some(running) = &self.running
        {
            running.guests.report_hang();
        }
        self.watch_for_hang(cx);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.cards.finish(cx);
        if let Some(running) = &self.running {
            running.guests.unwatch(cx);
        }
        self.running = None;
        Ok(())
    }
}

impl Handlers for Machine {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let guests = || self.running.as_ref().map(|running| &running.guests);
        // Of a machine that serves.
        let status = || guests().filter(|_| self.is_active).and_then(Guests::status);
        let number = |of: Option<u64>| of.unwrap_or(0).to_string();
        Ok(match name {
            "state" => status().map_or("stopped", |status| status.state.name()).to_owned(),
            "pid" => status().and_then(|status| status.pid).unwrap_or(0).to_string(),
            "standby" => {
                guests().map_or("none", |guests| guests.standby(self.is_active)).to_owned()
            }
            "takeovers" => number(guests().map(Guests::takeovers)),
            "restarts" => number(guests().map(Guests::restarts)),
            "faults" => number(status().map(|status| status.faults)),
            "hangs" => number(status().map(|status| status.hangs)),
            "last_error" => self.last_error(),
            "console" => status().map_or(String::new(), |status| status.output),
            "sandbox" => status()
                .and_then(|status| status.sandbox)
                .map_or(String::new(), |report| report.to_string()),
            "cards" => self.cards.describe(),
            "count" => self.cards.received().to_string(),
            "sent" => self.cards.sent().to_string(),
            _ => return Err(HandlerError::no_read(name)),
        })
    }
}

impl HotSwap for Machine {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let running = self.running.take()?;
        Some(Box::new(running))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(running) = state.downcast::<Running>() else { return };
        // Other machines, and one that served and is to wait, end here.
        if running.is_active <= self.is_active && running.settings == self.settings {
            self.running = Some(*running);
        }
    }
}
