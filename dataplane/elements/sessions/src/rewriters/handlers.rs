//! Handlers of rewriters.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use thruway_element::text::split_words;
use thruway_element::{Cx, Handler, HandlerError, Handlers, Merge, Shared, handler_value};
use thruway_wire::flow::FiveTuple;
use thruway_wire::ip_protocol::{DCCP, TCP, UDP};

use crate::rewriters::class::Class;
use crate::rewriters::context::Context;
use crate::rewriters::input::Rule;
use crate::rewriters::rewriter::{Input, Rewriter};
use crate::rewriters::store::{Shown, key_of, ticks};

/// Default number of mappings listed.
const LISTED: usize = 10_000;

const TABLE: &str = "mappings, a line for each direction: flow, what it becomes, both outputs (its own \
                     with a star), the input that made it, seconds until it may be forgotten; \
                     parameter is how many mappings to list (10000)";

const LOOKUP: &str = "what a flow, written SADDR SPORT DADDR DPORT, is rewritten to; nothing if there \
                      is no mapping";

/// Handlers of all rewriters.
pub(super) const COMMON: [Handler; 8] = [
    Handler::sum("nmappings", "mappings that this rewriter has now"),
    Handler::sum("table_size", "the same"),
    Handler::sum("mapping_failures", "mappings that could not be made"),
    Handler::read(
        "patterns",
        "a line for each input: its pattern or what it does, and its mappings",
    ),
    Handler::read(
        "pattern0",
        "the same of input 0; there is one such handler for each input, and \
                  writing one replaces what the input does and forgets its mappings",
    ),
    Handler::sum("size", "mappings of all rewriters that share the capacity"),
    Handler::both("capacity", "most mappings of all rewriters that share the capacity"),
    Handler::write("clear", "forgets all mappings of all rewriters that share the capacity"),
];

/// A handler that lists mappings.
pub(super) const fn table(name: &'static str) -> Handler {
    Handler { merge: Merge::Concat, ..Handler::read(name, TABLE) }
}

/// A handler that looks one up.
pub(super) const fn lookup(name: &'static str) -> Handler {
    Handler { merge: Merge::Concat, ..Handler::read(name, LOOKUP) }
}

impl Handlers for Rewriter {
    fn read_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        read(self, cx, name, param)
    }

    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        write(self, cx, name, value)
    }
}

/// Answers a read handler.
fn read(
    this: &mut Rewriter,
    cx: &mut Cx<'_>,
    name: &str,
    param: &str,
) -> Result<String, HandlerError> {
    if let Some(number) = input_of(this, name) {
        return Ok(patterns(this, cx, number..number + 1));
    }
    Ok(match name {
        "nmappings" | "table_size" => counts(this, cx).iter().sum::<u32>().to_string(),
        "mapping_failures" => {
            this.inputs.iter().map(|input| input.failures).sum::<u64>().to_string()
        }
        "patterns" => patterns(this, cx, 0..this.inputs.len()),
        "size" => this.with(cx, |_, store| store.len()).unwrap_or(0).to_string(),
        "capacity" => this.with(cx, |_, store| store.capacity()).unwrap_or(0).to_string(),
        "table" | "mappings" => list(this, cx, name, param)?,
        "tcp_table" | "tcp_mappings" | "udp_table" | "udp_mappings" => list(this, cx, name, param)?,
        "lookup" | "tcp_lookup" | "udp_lookup" => look_up(this, cx, name, param)?,
        _ => return Err(HandlerError::no_read(name)),
    })
}

/// Does what a write handler says.
fn write(
    this: &mut Rewriter,
    cx: &mut Cx<'_>,
    name: &str,
    value: &str,
) -> Result<(), HandlerError> {
    let now = ticks(cx.now());
    match name {
        "clear" => {
            this.with(cx, |_, store| store.clear(None));
        }
        "capacity" => {
            // Click's second number, a reservation, has no meaning any more.
            let word = split_words(value).first().copied().unwrap_or("");
            let capacity: u32 = handler_value(name, word)?;
            this.with(cx, |_, store| store.set_capacity(capacity, now));
        }
        _ => {
            let Some(number) = input_of(this, name) else {
                return Err(HandlerError::no_write(name));
            };
            let rule = rule(this, value)
                .map_err(|why| HandlerError::refused(format!("input spec {number}: {why}")))?;
            let owner = this.owner;
            this.with(cx, |_, store| store.clear(Some((owner, number as u16))));
            this.inputs[number] = Input { rule, failures: this.inputs[number].failures };
        }
    }
    Ok(())
}

/// A new rule for an input.
fn rule(this: &Rewriter, text: &str) -> Result<Rule, String> {
    let (names, shared) = (&this.names, &Shared::default());
    let rule = Rule::parse(
        text.trim(),
        &Context {
            names,
            shared,
            outputs: this.outputs,
            counter_scope: String::new(),
            rank: this.rank,
        },
    )?;
    let refused = rule.patterns().find_map(|pattern| this.class.refuses(pattern));
    refused.map_or(Ok(rule), |why| Err(why.to_owned()))
}

/// The input that a handler `patternN` is about.
fn input_of(this: &Rewriter, name: &str) -> Option<usize> {
    let digits = name.strip_prefix("pattern").filter(|digits| !digits.starts_with('+'))?;
    digits.parse().ok().filter(|number| *number < this.inputs.len())
}

fn counts(this: &mut Rewriter, cx: &mut Cx<'_>) -> Vec<u32> {
    let owner = usize::from(this.owner);
    let counts =
        this.with(cx, |_, store| store.owners.get(owner).map(|owner| owner.counts.clone()));
    counts.flatten().unwrap_or_default()
}

fn patterns(this: &mut Rewriter, cx: &mut Cx<'_>, numbers: std::ops::Range<usize>) -> String {
    let counts = counts(this, cx);
    let mut text = String::new();
    for number in numbers {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}", this.inputs[number].rule);
        if let Some(count) = counts.get(number).filter(|count| **count > 0) {
            let _ = write!(text, " [{count}]");
        }
        text.push('\n');
    }
    text
}

fn list(
    this: &mut Rewriter,
    cx: &mut Cx<'_>,
    name: &str,
    param: &str,
) -> Result<String, HandlerError> {
    let limit: usize = match param.trim() {
        "" => LISTED,
        number => handler_value(name, number)?,
    };
    let now = ticks(cx.now());
    let wants = |protocol: u8| match name {
        _ if name.starts_with("tcp") => protocol == TCP,
        _ if name.starts_with("udp") => protocol != TCP,
        _ => true,
    };
    let listed = this.with(cx, |this, store| {
        let mut text = String::new();
        for shown in store.list(this.owner, now, wants).take(limit) {
            text += &line(this.class, &shown, false);
            text += &line(this.class, &shown, true);
        }
        text
    });
    Ok(listed.unwrap_or_default())
}

/// One direction of a mapping.
fn line(class: Class, shown: &Shown, is_reply: bool) -> String {
    let (from, to) = match is_reply {
        false => (shown.flow, shown.rewritten),
        true => (shown.rewritten.reversed(), shown.flow.reversed()),
    };
    let (from, to) = match class {
        // Of a reply the destination is what is known and changed.
        Class::Address if is_reply => (address(from.dst), address(to.dst)),
        _ => (flow(class, &from), flow(class, &to)),
    };
    let added = match shown.added[usize::from(is_reply)] {
        0 => String::new(),
        added => format!(" seq {added:+}"),
    };
    let (forward, reply) = (shown.outputs.forward, shown.outputs.reply);
    let [star, reply_star] = if is_reply { ["", "*"] } else { ["*", ""] };
    let Shown { input, left_s, .. } = shown;
    format!("{from} => {to}{added} [{star}{forward} {reply_star}{reply}] i{input} exp{left_s}\n")
}

fn address(addr: u32) -> String {
    Ipv4Addr::from_bits(addr).to_string()
}

fn flow(class: Class, flow: &FiveTuple<u32>) -> String {
    let (src, dst) = (address(flow.src), address(flow.dst));
    let ident = flow.src_port.min(flow.dst_port);
    // The larger one is the smaller one and 1, but for the last number, which is followed by 0.
    let ident = if flow.src_port.abs_diff(flow.dst_port) > 1 { u16::MAX } else { ident };
    match class {
        Class::Address => src,
        Class::Pair => format!("({src}, {dst})"),
        Class::Ping => format!("({src}, {dst}, {ident})"),
        _ => format!("({src}, {}, {dst}, {})", flow.src_port, flow.dst_port),
    }
}

fn look_up(
    this: &mut Rewriter,
    cx: &mut Cx<'_>,
    name: &str,
    param: &str,
) -> Result<String, HandlerError> {
    let words = split_words(param);
    let &[src, src_port, dst, dst_port] = &words[..] else {
        return Err(HandlerError::refused(format!("{name}: expected SADDR SPORT DADDR DPORT")));
    };
    let names = &this.names;
    let address = |word| names.handler_value::<Ipv4Addr>(name, word).map(Ipv4Addr::to_bits);
    let (src, dst) = (address(src)?, address(dst)?);
    let port = |word| names.handler_value(name, word);
    let (src_port, dst_port) = (port(src_port)?, port(dst_port)?);
    let protocols: &[u8] = match name {
        "tcp_lookup" => &[TCP],
        "udp_lookup" => &[UDP],
        _ => &[TCP, UDP, DCCP],
    };
    let rewritten = this.with(cx, |this, store| {
        let found = protocols.iter().find_map(|protocol| {
            let flow = FiveTuple { src, dst, src_port, dst_port, protocol: *protocol };
            store.find(&key_of(&flow, this.owner))
        });
        store.peek(found?)
    });
    let shown = |to: FiveTuple<u32>| {
        let [src, dst] = [to.src, to.dst].map(self::address);
        format!("{src} {} {dst} {}", to.src_port, to.dst_port)
    };
    Ok(rewritten.flatten().map_or_else(String::new, |rewritten| shown(rewritten.to)))
}
