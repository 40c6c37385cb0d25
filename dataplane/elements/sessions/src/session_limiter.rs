//! SessionLimiter: a rate for every session.

use std::any::Any;
use std::sync::Arc;

use thruway_element::{
    ArgErrors, Args, Arguments, Bandwidth, Changes, Cx, Demand, Element, Entry, HandlerError,
    Handlers, HotSwap, Opening, Operation, PerSession, Reason, Replicas, Session, SessionFunction,
    Spec, Topic, Verdict, Wants, handler_value, reasons,
};
use thruway_flow::{Ended, SessionDef};
use thruway_packet::{Batch, Packet};
use thruway_sync::Credit;

use super::ip_len::ip_len;
use thruway_elements_support::pace::{Bucket, Pace};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SessionLimiter>(Spec {
    name: "SessionLimiter",
    topic: Topic::Sessions,
    summary: "limits the rate of each session, pair of addresses or source",
    docs: "Each session has a token bucket: RATE packets a second, or BANDWIDTH bytes a second (IP \
           header included, link layer not), of which BURST may come at once; exactly one of the \
           two is to be given. Packets that find too few tokens leave by output 1, if that is \
           connected, or are dropped; they take no tokens. SESSION selects the unit with a bucket \
           of its own: connection (the default), flow, pair, source, destination or a list of \
           fields. Where packets of both directions come here they share it.\n\n\
           BURST defaults to a tenth of a second's worth, but at least 10 packets, or 15,180 bytes \
           (ten full Ethernet frames). Bytes of less than one full frame (1,518) are refused, as \
           long packets would never pass. New values that are written to the handlers count at \
           once, for all sessions.\n\n\
           Packets without a session share one bucket of the same rate among them, in all threads, \
           so that they cannot evade the limit. A session that two threads serve has a bucket in \
           each. FlowClassifier finds the sessions, so it must be upstream.",
    example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
              ~> SessionLimiter(BANDWIDTH 1Mbps, SESSION source) -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    drops: Excess::DROPS,
    wants: Wants::session::<Bucket>("connection"),
    changes: Changes::Nothing,
    cost: &[Operation::SessionState.once()],
    replicas: Replicas::Apart(
        "a session that comes in by two threads has a bucket in each; packets without a \
         session share one",
    ),
    ..Spec::DEFAULT
})
.with_session_function::<SessionLimiter>()
.with_hot_swap::<SessionLimiter>();

reasons! {
    /// Why a packet goes no further.
    enum Excess {
        Session = "excess": "its session was over its rate",
        Sessionless = "excess-sessionless": "packets without a session were over the rate",
    }
}

/// Output for what is over the rate.
const EXCESS: usize = 1;
/// A full Ethernet frame with a VLAN tag's room, bytes.
const FRAME: u64 = 1_518;

#[derive(Arguments, Handlers)]
#[handler(
    both, name = "rate", "packets, or bytes, a second", get = self.limiter.pace.rate(),
    write = self.write_rate(name, value)
)]
#[handler(
    both, name = "burst", "packets, or bytes, that may come at once",
    get = self.limiter.pace.burst(), write = self.write_burst(name, value)
)]
#[handler(sum, name = "open", "open sessions", get = self.limiter.open)]
struct SessionLimiter {
    #[arg(keyword, name = "RATE", value = Option<u64>, "packets a second")]
    #[arg(keyword, name = "BANDWIDTH", value = Option<u64>, as = Bandwidth, "bytes a second")]
    #[arg(
        keyword, name = "BURST", value = Option<u64>, "packets or bytes that may come at once"
    )]
    #[new(limiter(args, rate, bandwidth, burst)?)]
    limiter: Limiter,
    /// what has a bucket of its own
    #[arg(keyword, or = "connection")]
    session: SessionDef,
}

/// The function proper.
struct Limiter {
    pace: Pace,
    /// Tokens are bytes, not packets.
    by_bytes: bool,
    /// Of packets without a session, in all threads.
    shared: Arc<Credit>,
    /// Time of it that was taken for packets to come, and is given back behind the batch.
    ahead: u64,
    open: u64,
    /// Present time.
    now: i64,
}

/// The state for a successor.
struct Kept {
    open: u64,
    /// Of packets without a session: when it was empty.
    shared: u64,
}

/// The burst when none was given.
fn usual_burst(rate: u64, by_bytes: bool) -> u64 {
    (rate / 10).max(if by_bytes { 10 * FRAME } else { 10 })
}

fn checked_pace(rate: u64, burst: u64, by_bytes: bool) -> Result<Pace, String> {
    if by_bytes && burst < FRAME {
        return Err(format!("a burst of {burst} bytes is less than a full frame of {FRAME}"));
    }
    Pace::new(rate, burst)
}

fn limiter(
    args: &Args<'_>,
    rate: Option<u64>,
    bandwidth: Option<u64>,
    burst: Option<u64>,
) -> Result<Limiter, ArgErrors> {
    let (rate, by_bytes, name) = match (rate, bandwidth) {
        (Some(rate), None) => (rate, false, "RATE"),
        (None, Some(rate)) => (rate, true, "BANDWIDTH"),
        _ => return Err(ArgErrors::whole("give RATE (packets) or BANDWIDTH (bytes), one of them")),
    };
    let burst = burst.unwrap_or(usual_burst(rate, by_bytes));
    let name = if args.given("BURST") && rate > 0 { "BURST" } else { name };
    let pace = checked_pace(rate, burst, by_bytes).map_err(|message| args.error(name, message))?;
    let shared = args.shared("sessionless", Credit::default);
    Ok(Limiter { pace, by_bytes, shared, ahead: 0, open: 0, now: 0 })
}

impl Limiter {
    #[inline]
    fn tokens(&self, packet: &Packet) -> u64 {
        if self.by_bytes { ip_len(packet) } else { 1 }
    }
}

impl PerSession for Limiter {
    type State = Bucket;

    fn open(
        &mut self,
        opening: &mut Opening<'_>,
        _packet: &mut Packet,
        state: &mut Bucket,
    ) -> Result<(), Reason> {
        *state = self.pace.full(opening.now);
        self.open += 1;
        Ok(())
    }

    #[inline]
    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, Bucket>) -> Verdict {
        match self.pace.take(session.state, self.tokens(packet), session.now) {
            true => Verdict::Pass,
            false => Verdict::reject(EXCESS, Excess::Session),
        }
    }

    fn without(&mut self, packet: &mut Packet) -> Verdict {
        let tokens = self.tokens(packet);
        let took = self.pace.take_ahead(&self.shared, &mut self.ahead, tokens, self.now);
        if took { Verdict::Pass } else { Verdict::reject(EXCESS, Excess::Sessionless) }
    }

    fn close(&mut self, _state: &Bucket, _why: Ended) {
        self.open = self.open.saturating_sub(1);
    }
}

impl Element for SessionLimiter {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Limiter { pace, shared, .. } = &self.limiter;
        // It is what another configuration has left, or full.
        if shared.empty_at() == 0 {
            shared.set_empty_at(pace.full(cx.now()));
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.limiter.now = cx.now();
        cx.per_session(&mut self.limiter, batch);
        let ahead = std::mem::take(&mut self.limiter.ahead);
        if ahead > 0 {
            self.limiter.shared.give_back(ahead);
        }
    }
}

impl SessionLimiter {
    fn set_pace(&mut self, name: &str, rate: u64, burst: u64) -> Result<(), HandlerError> {
        let pace = checked_pace(rate, burst, self.limiter.by_bytes);
        let refused = |message| HandlerError::refused(format!("{name}: {message}"));
        self.limiter.pace = pace.map_err(refused)?;
        Ok(())
    }

    fn write_rate(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let rate = match self.limiter.by_bytes {
            true => handler_value::<Bandwidth>(name, value)?.0,
            false => handler_value(name, value)?,
        };
        self.set_pace(name, rate, self.limiter.pace.burst())
    }

    fn write_burst(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let burst = handler_value(name, value)?;
        self.set_pace(name, self.limiter.pace.rate(), burst)
    }
}

impl HotSwap for SessionLimiter {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let shared = self.limiter.shared.empty_at();
        Some(Box::new(Kept { open: std::mem::take(&mut self.limiter.open), shared }))
    }

    /// Buckets are times: a new pace holds for them at once.
    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(kept) = state.downcast::<Kept>() {
            self.limiter.open = kept.open;
            self.limiter.shared.set_empty_at(kept.shared);
        }
    }
}

impl SessionFunction for SessionLimiter {
    fn demand(&self) -> Option<Demand> {
        Some(ENTRY.spec.wants.demand_of(self.session.clone()))
    }

    fn closed(&mut self, _cx: &mut Cx<'_>, _state: &[u8], why: Ended) {
        self.limiter.close(&0, why);
    }
}

#[cfg(test)]
mod tests;
