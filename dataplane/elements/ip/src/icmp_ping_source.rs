//! ICMPPingSource: pings, and what becomes of them.

use std::convert::Infallible;

use thruway_element::{
    Arguments, Cx, Element, Entry, HandlerError, Handlers, Nanos, Operation, Replicas, Spec, Topic,
    Ty, Verdict, handler_value,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::icmp::{IcmpHeader, icmp_type};
use thruway_wire::ip_protocol;
use thruway_wire::ipv4::Ipv4Header;

use super::icmp_ping_encap::PingMaker;
use super::outer::Encap;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<IcmpPingSource>(Spec {
    name: "ICMPPingSource",
    topic: Topic::Ip,
    summary: "sends ICMP echo requests",
    docs: "Sends an ICMP echo request from SRC to DST every INTERVAL, the first after one \
           INTERVAL, LIMIT in all; where its output pulls, one on every pull. Time-to-live is \
           200; IP identification and sequence number, both in network order, count from 1 and \
           skip 0. Packets begin with the IP header, which is marked.\n\n\
           Replies that come back into its input are reported to the user, as ping does, and \
           counted; at the end a summary is printed. VERBOSE false keeps it silent. All that comes \
           into the input ends there.",
    example: "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0.01, LIMIT 3) \
              -> ICMPPingResponder -> p; Script(wait 0.1, print p.count, stop)",
    ports: "0-1/1",
    processing: "h/a",
    flow: "x/y",
    drops: Encap::DROPS,
    cost: &[Operation::Make.once(), Operation::HeaderWrite.times(2.0)],
    replicas: Replicas::OneThread("it compares replies with the requests that it sent"),
    ..Spec::DEFAULT
});

/// The only timer.
const SEND: u32 = 0;
/// Shortest INTERVAL, in nanoseconds: a timer has to come to an end.
const MIN_INTERVAL: i64 = 1_000;

/// Times to replies and when requests went out.
struct Replies {
    /// By sequence number: when it was sent; 0 for never, inverted once answered.
    sent: Box<[i64]>,
    received: u64,
    duplicates: u64,
    min: i64,
    max: i64,
    /// In microseconds.
    sum: u128,
    square_sum: u128,
}

impl Replies {
    fn new() -> Replies {
        Replies {
            sent: vec![0; 1 << 16].into_boxed_slice(),
            received: 0,
            duplicates: 0,
            min: i64::MAX,
            max: 0,
            sum: 0,
            square_sum: 0,
        }
    }

    fn note_sent(&mut self, sequence: u16, now: i64) {
        self.sent[usize::from(sequence)] = now.max(1);
    }

    /// Notes a reply; the time since its request in nanoseconds, `None` when there was none.
    fn note_reply(&mut self, sequence: u16, now: i64) -> Option<i64> {
        let sent = &mut self.sent[usize::from(sequence)];
        if *sent == 0 {
            return None;
        }
        if *sent < 0 {
            self.duplicates += 1;
            *sent = !*sent;
        }
        let time = now.saturating_sub(*sent).max(0);
        *sent = !*sent;
        self.received += 1;
        self.min = self.min.min(time);
        self.max = self.max.max(time);
        let micros = u128::from(time.unsigned_abs() / 1000);
        self.sum = self.sum.saturating_add(micros);
        self.square_sum = self.square_sum.saturating_add(micros * micros);
        Some(time)
    }

    fn average(&self) -> u128 {
        self.sum / u128::from(self.received.max(1))
    }

    fn min(&self) -> i64 {
        if self.received == 0 { 0 } else { self.min }
    }

    fn summary(&self, count: u64) -> String {
        let unique = self.received.saturating_sub(self.duplicates);
        let mut text = format!("{count} packets transmitted, {unique} received");
        if self.duplicates > 0 {
            text.push_str(&format!(", +{} duplicates", self.duplicates));
        }
        if let Some(loss) = (count.saturating_sub(unique) * 100).checked_div(count) {
            text.push_str(&format!(", {loss}% packet loss"));
        }
        text.push('\n');
        if self.received > 0 {
            let average = self.average();
            let square = self.square_sum / u128::from(self.received);
            let deviation = square.saturating_sub(average * average).isqrt();
            let [min, max] = [self.min(), self.max].map(|time| u128::from(time.unsigned_abs()));
            let times = [min / 1000, average, max / 1000, deviation];
            let times = times.map(|us| format!("{}.{:03}", us / 1000, us % 1000));
            text.push_str(&format!("rtt min/avg/max/mdev = {}\n", times.join("/")));
        }
        text
    }
}

#[derive(Arguments, Handlers)]
#[handler(both, field = active, "whether it sends", write = self.write_active(cx, name, value))]
#[handler(
    both, name = "src", "source address", read = self.maker.outer.read(name),
    run = self.maker.outer.write(name, value)?
)]
#[handler(
    both, name = "dst", "destination address", read = self.maker.outer.read(name),
    run = self.maker.outer.write(name, value)?
)]
#[handler(
    both, field = limit, "requests in all; negative for no limit",
    write = self.write_limit(cx, name, value)
)]
#[handler(
    both, name = "interval", "time between two requests", get = nanos(self.interval),
    write = self.write_interval(cx, name, value)
)]
#[handler(sum, field = count, "requests sent")]
#[handler(
    write, name = "reset_counts", "sets all counts to zero", write = self.write_reset_counts(cx)
)]
#[handler(
    read, name = "summary", "the final summary, as of ping",
    get = self.replies(name)?.summary(self.count)
)]
#[handler(
    read, name = "rtt_min", "shortest time to a reply, in seconds",
    get = nanos(self.replies(name)?.min())
)]
#[handler(
    read, name = "rtt_avg", "average time to a reply, in seconds",
    get = seconds(self.replies(name)?.average() * 1000)
)]
#[handler(
    read, name = "rtt_max", "longest time to a reply, in seconds",
    get = nanos(self.replies(name)?.max)
)]
struct IcmpPingSource {
    #[arg(required, name = "SRC", unread, ty = Ty::Ip, "source address")]
    #[arg(required, name = "DST", unread, ty = Ty::Ip, "destination address")]
    /// time between two requests
    #[arg(keyword, via = not_too_short, or = "1")]
    interval: i64,
    #[arg(keyword, name = "IDENTIFIER", unread, ty = Ty::UInt, or = "0", "ICMP identifier")]
    #[new(PingMaker::from_args(args, 200)?)]
    maker: PingMaker,
    /// requests in all; negative for no limit
    #[arg(keyword, or = "-1")]
    limit: i64,
    /// what requests carry
    #[arg(keyword, else = Vec::new())]
    data: Vec<u8>,
    /// whether it sends
    #[arg(keyword, or = "true")]
    active: bool,
    /// whether replies are reported to the user
    #[arg(keyword, or = "true")]
    verbose: bool,
    count: u64,
    #[new(true)]
    pushes: bool,
    #[new((args.env().inputs > 0).then(Replies::new))]
    replies: Option<Replies>,
}

fn not_too_short(Nanos(interval): Nanos) -> Result<i64, Infallible> {
    Ok(interval.max(MIN_INTERVAL))
}

impl IcmpPingSource {
    fn may_send(&self) -> bool {
        let left = u64::try_from(self.limit).is_ok_and(|limit| self.count < limit);
        self.active && (self.limit < 0 || left)
    }

    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = cx.packet(&self.data)?;
        let sequence = self.maker.outer.id();
        match self.maker.encap(&mut packet) {
            Verdict::Pass => {}
            other => {
                cx.apply(packet, other);
                return None;
            }
        }
        packet.set_timestamp(cx.now());
        self.count += 1;
        if let Some(replies) = &mut self.replies {
            replies.note_sent(sequence, cx.now());
        }
        Some(packet)
    }

    fn schedule(&mut self, cx: &mut Cx<'_>, after: i64) {
        cx.clear_timer(SEND);
        if self.pushes && self.may_send() {
            cx.set_timer(SEND, cx.now().saturating_add(after));
        }
    }

    fn take_reply(&mut self, cx: &mut Cx<'_>, packet: &Packet) {
        let Ok((ip, message)) = Ipv4Header::parse(packet.network()) else { return };
        let Ok((icmp, data)) = IcmpHeader::parse(message) else { return };
        let ours = ip.protocol() == ip_protocol::ICMP
            && !ip.is_fragment()
            && icmp.icmp_type() == icmp_type::ECHO_REPLY
            && icmp.ident() == self.maker.identifier;
        let Some(replies) = self.replies.as_mut().filter(|_| ours) else { return };
        let now = cx.now();
        if let Some(time) = replies.note_reply(icmp.sequence(), now)
            && self.verbose
        {
            let (len, sequence, ttl) = (data.len(), icmp.sequence(), ip.ttl());
            let (from, us) = (ip.src_addr(), time / 1000);
            let (ms, us) = (us / 1000, us % 1000);
            let what = format!(
                "{len} bytes from {from}: icmp_seq={sequence} ttl={ttl} time={ms}.{us:03} ms"
            );
            report(cx, &what);
        }
    }
}

/// Shows the user, with the element's name in front.
fn report(cx: &mut Cx<'_>, what: &str) {
    let name = cx.name();
    cx.log(&format!("{name}: {what}"));
}

/// Nanoseconds as seconds.
fn seconds(nanos: u128) -> String {
    format!("{}.{:06}", nanos / 1_000_000_000, nanos / 1000 % 1_000_000)
}

impl Element for IcmpPingSource {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.pushes = !cx.is_pull_output(0);
        let interval = self.interval;
        self.schedule(cx, interval);
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if self.may_send()
            && let Some(packet) = self.make(cx)
        {
            cx.emit(0, packet);
        }
        let interval = self.interval;
        self.schedule(cx, interval);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        while batch.len() < max && self.may_send() {
            match self.make(cx) {
                Some(packet) => batch.push(packet),
                None => return,
            }
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.iter() {
            self.take_reply(cx, packet);
        }
        batch.clear();
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(replies) = self.replies.as_ref().filter(|_| self.verbose) {
            for line in replies.summary(self.count).lines() {
                report(cx, line);
            }
        }
        Ok(())
    }
}

/// Nanoseconds as seconds.
fn nanos(time: i64) -> String {
    seconds(u128::from(time.unsigned_abs()))
}

impl IcmpPingSource {
    fn replies(&self, name: &str) -> Result<&Replies, HandlerError> {
        let refused = || HandlerError::refused(format!("{name}: the input is not connected"));
        self.replies.as_ref().ok_or_else(refused)
    }

    fn write_active(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let active = handler_value(name, value)?;
        if active == self.active {
            return Ok(());
        }
        self.active = active;
        self.schedule(cx, 0);
        Ok(())
    }

    fn write_limit(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.limit = handler_value(name, value)?;
        self.schedule(cx, self.interval);
        Ok(())
    }

    fn write_interval(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.interval = handler_value::<Nanos>(name, value)?.0.max(MIN_INTERVAL);
        self.schedule(cx, self.interval);
        Ok(())
    }

    fn write_reset_counts(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.count = 0;
        self.replies = self.replies.take().map(|_| Replies::new());
        self.schedule(cx, self.interval);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics() {
        let mut replies = Replies::new();
        assert_eq!(replies.summary(0), "0 packets transmitted, 0 received\n");
        for (sequence, sent, came) in [(1, 1_000_000, 2_000_000), (2, 5_000_000, 8_000_000)] {
            replies.note_sent(sequence, sent);
            assert_eq!(replies.note_reply(sequence, came), Some(came - sent));
        }
        assert_eq!(replies.note_reply(3, 9_000_000), None);
        assert_eq!(
            replies.summary(4),
            "4 packets transmitted, 2 received, 50% packet loss\n\
             rtt min/avg/max/mdev = 1.000/2.000/3.000/1.000\n"
        );
        assert_eq!(replies.note_reply(2, 7_000_000), Some(2_000_000));
        let text = replies.summary(4);
        assert!(text.starts_with("4 packets transmitted, 2 received, +1 duplicates, 50% packet"));
        assert_eq!(replies.average(), 2000);
    }
}
