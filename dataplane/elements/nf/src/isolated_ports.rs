//! IsolatedPorts: how packets come into the process of an isolated part, and leave it.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, NOTHING_MORE, Purpose, Replicas, Run, Spec,
    Threading, Topic, Ty,
};
use thruway_exchange::socket::SocketError;
use thruway_exchange::{Attached, Outgoing, prepare_wait};
use thruway_nf_abi::SlotHead;
use thruway_nf_abi::control::{DRAIN, Figure, RUNNING, SIGNED};
use thruway_nf_abi::message::{Head, Kind, LEN_MAX, WaitMode};
use thruway_packet::{Batch, Packet};
use thruway_sync::atomic::Ordering;

use super::carried::pack;
use super::opened::{Closed, Lost, Opened};

/// Under which name the driver gives the link to its host (see `Options::provide` of the engine).
pub const HOST: (&str, &str) = ("", "host");

/// The link to the host, until the element takes it; provided as an `Arc`.
pub type Host = Mutex<Option<Attached>>;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "IsolatedPorts",
        topic: Topic::Nf,
        summary: "packets of the host, in the process of an isolated part",
        docs: "The one element of an isolated part's own configuration (`thruway worker`) that \
               the part itself does not have: packets come in by its outputs, up to BATCH at a \
               time, and leave by its inputs. Of one, the first that leaves goes back in its \
               slot, further ones beside it; of several, each goes back in its own. If none \
               does, it is dropped; what leaves later is injected. Isolate writes such \
               configurations, with a BATCH of more than one where all elements of the part are \
               straight: they make, copy and keep no packet.",
        example: "p :: IsolatedPorts -> Strip(14) -> p",
        ports: "-/-",
        processing: "h/h",
        flow: "x/y",
        drops: Lost::DROPS,
        args: const {
            &[Arg::keyword("BATCH", Ty::UInt, "packets that come in at a time, 1 to 31").or("1")]
        },
        threading: Threading::Task,
        cost: NOTHING_MORE,
        replicas: Replicas::Apart("the process of an isolated part has one thread"),
        purpose: Purpose::EnterProcess,
        ..Spec::DEFAULT
    },
    build,
);

/// Rounds without packets between two looks at the control socket.
const SOCKET_EVERY: u32 = 1 << 12;
/// How often it is looked whether the host has made room, nanoseconds: a few exchanges.
const ROOM_NS: i64 = 20_000;

struct IsolatedPorts {
    host: Arc<Host>,
    attached: Option<Attached>,
    /// Most slots that are open at a time.
    most: u32,
    /// The slots that are open, and whose they are: those of the last link that had any.
    opened: Opened,
    last: usize,
    bytes: Vec<u8>,
    requests: u32,
    lying: bool,
    /// Since when, and for how many rounds, nothing came.
    idle_since: i64,
    idle: u32,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let host = args.env().shared.get(HOST.0, HOST.1, Arc::<Host>::default);
    let host = host.ok_or_else(|| ArgErrors::whole("there is no host to attach to"))?;
    let most: u32 = args.get("BATCH")?;
    if !(1..=u32::from(Packet::TAGS)).contains(&most) {
        return Err(args.error("BATCH", format!("must be from 1 to {}", Packet::TAGS)).into());
    }
    Ok(Box::new(IsolatedPorts {
        host: Arc::clone(&host),
        attached: None,
        most,
        opened: Opened::default(),
        last: 0,
        bytes: Vec::new(),
        requests: 0,
        lying: false,
        idle_since: 0,
        idle: 0,
    }))
}

impl IsolatedPorts {
    /// Gives the open slots back with what became of their packets. False when one must stay open,
    /// because the host has to make room first for what goes beside it.
    fn close(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(attached) = &mut self.attached else { return true };
        let Some(link) = attached.links.get_mut(self.last).filter(|_| self.opened.is_open()) else {
            return true;
        };
        let closed = self.opened.close(cx, &mut link.worker, &attached.control);
        if closed == Closed::WantsRoom {
            link.flush();
            return false;
        }
        link.hand_back();
        true
    }

    /// Opens the next slots and sends their packets on; false when no link has one.
    fn open_next(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(attached) = &mut self.attached else { return false };
        let count = attached.links.len();
        // In turn: one busy thread must not keep the others waiting.
        let mut next = (1..=count).map(|nth| (self.last + nth) % count);
        let Some(at) = next.find(|at| attached.links[*at].worker.waiting() > 0) else {
            return false;
        };
        self.last = at;
        self.opened.open(cx, &mut attached.links[at].worker, self.most);
        true
    }

    /// Sends a packet for which no slot is open.
    fn inject(&mut self, cx: &mut Cx<'_>, output: u8, mut packet: Packet) {
        let Some(attached) = &mut self.attached else { return };
        pack(&mut packet, &mut self.bytes);
        let to = Outgoing { output, fcb: SlotHead::NO_SESSION };
        let link = attached.links.first_mut();
        let sent = link.is_some_and(|link| link.worker.inject(to, [&self.bytes, &[]]).is_ok());
        if !sent {
            attached.control.add_figure(Figure::InjectionFull, 1);
            cx.drop(Lost::Full, packet);
        }
    }

    /// Answers what the host asks; ends the router when the host is gone.
    fn answer(&mut self, cx: &mut Cx<'_>) {
        let Some(attached) = &self.attached else { return };
        loop {
            let message = match attached.socket.try_receive() {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(_) => return cx.stop(),
            };
            let text = message.text();
            let answer = match message.head.kind {
                Kind::Read => cx.read_handler(&text).map_err(|error| error.to_string()),
                Kind::Write => {
                    let (call, value) = text.split_once(' ').unwrap_or((&text, ""));
                    let done = cx.write_handler(call, value);
                    done.map(|()| String::new()).map_err(|error| error.to_string())
                }
                _ => continue,
            };
            let (kind, text) = match &answer {
                Ok(text) => (Kind::Reply, text),
                Err(text) => (Kind::Error, text),
            };
            let len = text.floor_char_boundary(LEN_MAX - Head::LEN);
            let head = Head::new(kind, message.head.id);
            // A host that does not read answers does not get them.
            if let Err(SocketError::Closed) =
                attached.socket.try_send(head, &text.as_bytes()[..len])
            {
                return cx.stop();
            }
        }
    }

    /// Shows the host what is done.
    fn flush(&mut self) {
        if let Some(attached) = &mut self.attached {
            attached.links.iter_mut().for_each(|link| link.flush());
        }
    }

    /// Nothing waits: sleeps, as the host wishes.
    fn rest(&mut self, cx: &mut Cx<'_>) -> Run {
        let now = cx.now();
        if self.idle == 0 {
            self.idle_since = now;
        }
        self.idle = self.idle.wrapping_add(1);
        let Some(attached) = &mut self.attached else { return Run::Idle };
        if attached.control.command() == DRAIN {
            cx.stop();
            return Run::Idle;
        }
        let spin_ns = i64::from(attached.welcome.spin_ns);
        let sleeps = match attached.welcome.wait {
            WaitMode::Block => true,
            WaitMode::Poll => false,
            WaitMode::Hybrid => now.saturating_sub(self.idle_since) >= spin_ns,
        };
        if !sleeps {
            if self.idle.is_multiple_of(SOCKET_EVERY) {
                self.answer(cx);
            }
            return Run::Again;
        }
        if self.lying
            && let Some(eventfd) = &attached.eventfd
        {
            // Not blocking: something else may have ended the sleep.
            let _ = rustix::io::read(eventfd, &mut [0; 8]);
            self.answer(cx);
        }
        let Some(attached) = &mut self.attached else { return Run::Idle };
        let (links, control, requests) = (&mut attached.links, &attached.control, self.requests);
        let lies = prepare_wait(control.status(), || {
            control.requests() != requests
                || control.command() == DRAIN
                || links.iter_mut().any(|link| link.worker.has_work())
        });
        if lies && !self.lying {
            attached.control.add_figure(Figure::Sleeps, 1);
        }
        self.lying = lies;
        if lies { Run::Idle } else { Run::Again }
    }

    /// Gets up, if it lies.
    fn get_up(&mut self) {
        let Some(attached) = &self.attached else { return };
        if std::mem::replace(&mut self.lying, false) {
            let before = attached.control.status().swap(RUNNING, Ordering::Relaxed);
            if before == SIGNED {
                attached.control.add_figure(Figure::WakeUps, 1);
            }
        }
    }

    fn attach(&mut self, cx: &mut Cx<'_>) -> bool {
        let attached = self.host.lock().unwrap_or_else(|poison| poison.into_inner()).take();
        let Some(attached) = attached else { return false };
        let watched = cx.watch(attached.socket.as_fd());
        let watched =
            watched.and_then(|()| attached.eventfd.iter().try_for_each(|fd| cx.watch(fd)));
        if let Err(error) = watched {
            cx.log(&format!("cannot watch the host: {error}"));
        }
        if attached.ready().is_err() {
            cx.stop();
        }
        self.attached = Some(attached);
        true
    }
}

impl Element for IsolatedPorts {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        let host = self.host.lock().unwrap_or_else(|poison| poison.into_inner());
        match &*host {
            Some(_) => Ok(()),
            None => Err("this element works in a process that Isolate started only".to_owned()),
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let output = port as u8;
        let link = self.attached.as_mut().and_then(|attached| attached.links.get_mut(self.last));
        if let Some(link) = link.filter(|_| self.opened.is_open()) {
            for packet in batch.drain() {
                self.opened.keep(cx, &mut link.worker, output, packet);
            }
        } else {
            batch.drain().for_each(|packet| self.inject(cx, output, packet));
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if self.attached.is_none() && !self.attach(cx) {
            return Run::Idle;
        }
        if !self.close(cx) {
            return Run::At(cx.now() + ROOM_NS);
        }
        if let Some(attached) = &self.attached {
            let requests = attached.control.requests();
            if requests != self.requests {
                self.requests = requests;
                let set = attached.control.worker_threshold();
                if let (Some(set), Some(attached)) = (set, &mut self.attached) {
                    attached.links.iter_mut().for_each(|link| link.worker.set_threshold(set));
                }
                self.get_up();
                self.answer(cx);
            }
        }
        if self.open_next(cx) {
            self.get_up();
            self.idle = 0;
            return Run::Again;
        }
        self.flush();
        if let Some(attached) = &self.attached
            && self.idle == 0
        {
            attached.control.beat();
        }
        self.rest(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.close(cx);
        self.flush();
        Ok(())
    }
}
