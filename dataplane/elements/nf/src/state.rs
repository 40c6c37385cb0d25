//! What an isolated function's element has while it runs, and what goes on when the configuration
//! is replaced.

use std::collections::VecDeque;
use std::sync::Arc;

use thruway_element::Cx;
use thruway_exchange::{LinkFigures, SlotTag};
use thruway_packet::{MAX_BATCH, Packet};

use super::backend::Function;
use super::came::AsTaker;
use super::framed::Frames;
use super::latency::Latency;
use super::link::{Link, Refused};
use super::lost::Lost;
use super::outlet::Outlet;
use super::sessions::Entries;
use super::settings::Settings;
use super::waking::Gathering;

/// Most news of ended sessions that wait among packets while the ring is full.
const NEWS_MAX: usize = MAX_BATCH;

/// What waits for a slot.
pub(super) enum Waiting {
    Packet(SlotTag, Packet),
    /// News that a session has ended: its packets are in front.
    Released(u32),
}

/// See the module.
pub(super) struct NfState {
    pub settings: Settings,
    pub function: Arc<dyn Function>,
    pub frames: Option<Arc<Frames>>,
    pub link: Option<Link>,
    pub generation: u32,
    pub backlog: VecDeque<Waiting>,
    /// How many of the backlog are news.
    news: usize,
    /// Sessions, where packets have any.
    pub entries: Option<Entries>,
    pub totals: LinkFigures,
    pub latency: Latency,
    pub gathering: Gathering,
    pub outlet: Outlet,
    /// The predecessor in a trust group, whose process was told to end: it may write into its
    /// frames until it has.
    pub ended: Option<Box<NfState>>,
    /// Packets that came from another function's slot, or in its frame.
    pub token_count: u64,
}

impl NfState {
    /// Before the first link.
    pub fn new(
        settings: &Settings,
        function: Arc<dyn Function>,
        frames: Option<Arc<Frames>>,
        entries: Option<Entries>,
        as_taker: AsTaker,
    ) -> NfState {
        // Content of streams has a head of its own.
        let as_taker = Some(as_taker).filter(|_| settings.stream.is_none());
        NfState {
            settings: settings.clone(),
            function,
            frames,
            link: None,
            generation: 0,
            backlog: VecDeque::with_capacity(2 * MAX_BATCH),
            news: 0,
            entries,
            totals: LinkFigures::default(),
            latency: Latency::default(),
            gathering: Gathering::default(),
            outlet: Outlet::new(settings.carry, as_taker),
            ended: None,
            token_count: 0,
        }
    }

    /// Whether its process may still write into frames of a trust group.
    pub fn may_write(&self) -> bool {
        self.frames.is_some() && self.link.is_some() && self.function.generation() != 0
    }

    /// Takes the frames of the predecessor's function back once its process has ended. How many
    /// packets are lost with it.
    #[cold]
    pub fn take_back_ended(&mut self) -> usize {
        let ended = self.ended.take_if(|ended| !ended.may_write());
        ended.map_or(0, |mut ended| ended.end(None))
    }

    /// Packets that wait for a slot.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.backlog.len() - self.news
    }

    /// Takes out all packets that wait.
    pub fn take_waiting(&mut self) -> Vec<(SlotTag, Packet)> {
        self.news = 0;
        let (backlog, entries) = (&mut self.backlog, &mut self.entries);
        let packets = backlog.drain(..).filter_map(|waiting| match waiting {
            Waiting::Packet(mark, packet) => Some((mark, packet)),
            Waiting::Released(fcb) => {
                entries.iter_mut().for_each(|entries| entries.end_again(fcb));
                None
            }
        });
        packets.collect()
    }

    /// Whether it had sessions and a successor has them now.
    pub fn has_given_entries(&self) -> bool {
        self.settings.sessions.is_some() && self.entries.is_none()
    }

    /// Ends it for a successor that has its sessions, if `entries` are those: what the function was
    /// told of them and did not give back is as if it had not been told. How many packets are lost.
    pub fn end(&mut self, mut entries: Option<&mut Entries>) -> usize {
        let mut lost = 0;
        if let Some(link) = &mut self.link {
            link.reclaim(entries.as_deref_mut(), |_, packet| {
                lost += 1;
                drop(packet);
            });
        }
        lost + self.end_backlog(entries) + self.take_back_ended()
    }

    /// The same of what waits for a slot.
    pub fn end_backlog(&mut self, mut entries: Option<&mut Entries>) -> usize {
        let lost = self.waiting();
        for waiting in self.backlog.drain(..) {
            if let (Waiting::Released(fcb), Some(entries)) = (waiting, &mut entries) {
                entries.end_again(fcb);
            }
        }
        self.news = 0;
        lost
    }

    /// So many packets come next: their sessions are noted where their scratch goes to another
    /// host.
    #[inline]
    pub fn expect(&mut self, count: usize) {
        if self.entries.as_ref().is_some_and(Entries::notes_changes) {
            let given = self.figures().put as u32;
            let given = given.wrapping_add((self.waiting() + count) as u32);
            self.entries.iter_mut().for_each(|entries| entries.set_given(given));
        }
    }

    /// The mark of the `nth` packet of the batch in hand.
    #[inline]
    pub fn mark_of(&self, nth: usize, input: u8) -> SlotTag {
        let mark = self.entries.as_ref().and_then(|entries| entries.mark_of(nth));
        mark.unwrap_or(SlotTag { input, ..SlotTag::NONE })
    }

    /// Hands a packet over; gives it back when the ring is full.
    #[inline]
    pub fn put(&mut self, cx: &mut Cx<'_>, mark: SlotTag, packet: Packet) -> Option<Packet> {
        let Some(link) = &mut self.link else { return Some(packet) };
        let mark = self.entries.as_ref().map_or(mark, |entries| entries.ready(mark));
        let now = cx.now();
        let streams = self.entries.as_mut().and_then(|entries| entries.streams_at(mark));
        let put = match streams {
            Some((streams, entry)) => {
                let bytes = streams.pack(mark, entry, &packet, now);
                let put = link.put_bytes(mark, packet, Some(bytes));
                if put.is_ok() {
                    streams.put(mark, entry);
                }
                put
            }
            None => link.put(mark, packet, &mut self.outlet),
        };
        match put {
            Ok(()) => {
                self.entries.iter_mut().for_each(|entries| entries.put(mark));
                None
            }
            Err((packet, Refused::Full | Refused::Alone)) => Some(packet),
            Err((packet, Refused::Never(why))) => {
                self.lose(cx, mark, packet, why);
                None
            }
        }
    }

    /// Whether what is handed over now are packets that go as their bytes, or those and what is
    /// known of them, with nothing beside them and nothing in front of them.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.entries.is_none()
            && self.backlog.is_empty()
            && self.link.as_ref().is_some_and(Link::is_plain)
    }

    /// Hands over packets while all [is plain](Self::is_plain); gives the one that finds the ring
    /// full.
    #[inline]
    pub fn put_all(
        &mut self,
        cx: &mut Cx<'_>,
        mark: SlotTag,
        packets: &mut impl Iterator<Item = Packet>,
    ) -> Option<Packet> {
        let carries = self.outlet.carries();
        loop {
            let link = self.link.as_mut()?;
            let left = match carries {
                true => link.put_all_known(mark, packets)?,
                false => link.put_all(mark, packets)?,
            };
            match left {
                (packet, Refused::Full) => return Some(packet),
                (packet, Refused::Never(why)) => self.lose(cx, mark, packet, why),
                (packet, Refused::Alone) => {
                    if let Some(packet) = self.put(cx, mark, packet) {
                        return Some(packet);
                    }
                }
            }
        }
    }

    /// Loses a packet: where it is part of a stream, its connection ends.
    pub fn lose(&mut self, cx: &mut Cx<'_>, mark: SlotTag, mut packet: Packet, why: Lost) {
        let now = cx.now();
        let streams = self.entries.as_mut().and_then(|entries| entries.streams_at(mark));
        if streams.is_some_and(|(streams, entry)| streams.close(mark, entry, &mut packet, now)) {
            self.outlet.give(cx, mark.input.into(), packet);
        } else {
            cx.drop(why, packet);
        }
    }

    /// Lets a packet go on that the function has not treated.
    pub fn pass(&mut self, cx: &mut Cx<'_>, mark: SlotTag, mut packet: Packet) {
        let now = cx.now();
        match self.entries.as_mut().and_then(|entries| entries.streams_at(mark)) {
            None => self.outlet.give(cx, 0, packet),
            Some((streams, entry)) => {
                if streams.pass(mark, entry, &mut packet, now) {
                    self.outlet.give(cx, mark.input.into(), packet);
                }
            }
        }
    }

    /// Hands over what waits, and the news of ended sessions; whether anything was.
    pub fn put_backlog(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut has_put = false;
        while let Some(waiting) = self.backlog.pop_front() {
            let left = match waiting {
                Waiting::Packet(mark, packet) => {
                    self.put(cx, mark, packet).map(|packet| Waiting::Packet(mark, packet))
                }
                Waiting::Released(fcb) => {
                    let is_put = self.put_released(fcb);
                    self.news -= usize::from(is_put);
                    (!is_put).then_some(Waiting::Released(fcb))
                }
            };
            match left {
                Some(left) => {
                    self.backlog.push_front(left);
                    break;
                }
                None => has_put = true,
            }
        }
        self.put_ended() || has_put
    }

    /// Tells the function of sessions that have ended, behind all of their packets; whether any
    /// news were put.
    pub fn put_ended(&mut self) -> bool {
        if self.link.is_none() {
            return false;
        }
        let mut has_put = false;
        while let Some(fcb) = self.entries.as_mut().and_then(Entries::next_ended) {
            let is_done = if self.backlog.is_empty() {
                let is_put = self.put_released(fcb);
                has_put |= is_put;
                is_put
            } else {
                let has_room = self.news < NEWS_MAX;
                if has_room {
                    self.news += 1;
                    self.backlog.push_back(Waiting::Released(fcb));
                }
                has_room
            };
            if !is_done {
                self.entries.iter_mut().for_each(|entries| entries.end_first(fcb));
                break;
            }
        }
        has_put
    }

    /// Tells the function that a session has ended, if it knows of it. False when the ring is full.
    fn put_released(&mut self, fcb: u32) -> bool {
        let (Some(link), Some(entries)) = (&mut self.link, &mut self.entries) else {
            return false;
        };
        if entries.knows(fcb) {
            return link.put_released(fcb);
        }
        // All of its packets came to nothing.
        entries.release(fcb);
        true
    }

    /// Shows the function what was put.
    #[inline]
    pub fn publish(&mut self, cx: &mut Cx<'_>) {
        if let Some(link) = &mut self.link {
            link.publish(cx.now());
            self.latency.published(link.figures().put);
            self.gathering.shown();
        }
    }

    /// Figures of all generations.
    pub fn figures(&self) -> LinkFigures {
        let mut all = self.totals;
        if let Some(link) = &self.link {
            add(&mut all, link.figures());
        }
        all
    }

    /// Adds those of a link that ends.
    pub fn add_figures(&mut self, figures: LinkFigures) {
        add(&mut self.totals, figures);
    }
}

fn add(total: &mut LinkFigures, link: LinkFigures) {
    total.put += link.put;
    total.returned += link.returned;
    total.dropped += link.dropped;
    total.aux += link.aux;
    total.injected += link.injected;
    total.wake_ups += link.wake_ups;
    total.occupancy_max = total.occupancy_max.max(link.occupancy_max);
}
