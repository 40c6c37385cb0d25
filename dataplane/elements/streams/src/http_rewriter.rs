//! HTTPRewriter: heads and bodies changed, requests blocked with a page of our own.

use std::any::Any;

use thruway_element::{
    Arg, ArgErrors, Args, Buffer, Changes, Cx, Element, Ended, Entry, Handlers, HotSwap, Layer,
    Needs, Operation, Replicas, SessionFunction, Spec, StreamFunction, StreamMember, Topic, Ty,
};
use thruway_packet::Batch;
use thruway_stream::stage::Stage;

use super::holding::{GIVEN_UP, TOTAL, given_up, hold};
use super::per_stream::{PerStream, STAGE_TIMER, stream_ended, stream_wants};
use rewriting::{Page, Rewriting, SessionState};
use rules::Rules;

mod rewriting;
mod rules;
#[cfg(test)]
mod tests;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<HttpRewriter>(
    Spec {
        name: "HTTPRewriter",
        topic: Topic::Streams,
        summary: "changes fields and bodies of HTTP messages, blocks requests with a page of its own",
        docs: "Stands between HTTPIn and HTTPOut. Its rules are arguments, and the lines of FILE \
               (empty lines and those that begin with # count for nothing):\n\n\
               block host NAME, block path PATH: the request gets the page instead, * stands for \
               anything. The server is asked for ELSEWHERE instead, without the request's body and \
               other fields than Host and Connection, and its answer is replaced by STATUS and \
               PAGE (a file; by default a line of text): so answers stay in order. CONNECT, and \
               responses with a body that is not text, end the connection.\n\n\
               add|set|replace request|response NAME VALUE, remove request|response NAME: a field \
               more; exactly one; exactly one if there was any; none. Content-Length and \
               Transfer-Encoding are seen to by HTTPOut.\n\n\
               body replace|insert-before|insert-after [re] WORD TEXT, body remove [re] WORD: in \
               bodies that HTTPIn shows, of requests and responses. With re, WORD is a regular \
               expression (of bytes, in the syntax of Rust's regex crate, without references to \
               groups). Rules are tried at each place in their order; their output is not searched \
               again. Up to SPAN bytes behind a place decide whether something is found there: \
               they are held back until they or the end of the message have come, and their sender \
               is informed that they have arrived. With HOLD, they go on when nothing comes for \
               that time (a server that sends events one by one needs it), and a match that \
               continues in later bytes is missed: a server that pauses is not inspected.\n\n\
               What is held back of all connections takes at most TOTAL bytes of memory (whole \
               frames, where there are more than 55 bytes); beyond, the one that has waited \
               longest is closed when more comes of it, and counted as given_up.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier ~> TCPIn \
                  -> HTTPIn(IDENTITY true) -> HTTPRewriter('block host *.ads.example', \
                  'set response Server thruway', 'body replace colour color') -> HTTPOut -> TCPOut \
                  -> Discard",
        ports: "1-/=",
        flow: "#/#",
        args: &[
            Arg::rest("RULE", Ty::Rule("rewriting rule"), "what is changed"),
            Arg::keyword("FILE", Ty::File, "more rules, a line each"),
            Arg::keyword("PAGE", Ty::File, "response to blocked requests"),
            Arg::keyword("TYPE", Ty::Str, "its type").or("text/html"),
            Arg::keyword("STATUS", Ty::UInt, "its status").or("403"),
            Arg::keyword("ELSEWHERE", Ty::Str, "what the server is asked for instead").or("/"),
            Arg::keyword("SPAN", Ty::UInt, "bytes behind a place that decide about it").or("1024"),
            Arg::keyword("HOLD", Ty::Time, "longest time that they are held back; 0: ever").or("0"),
            TOTAL,
        ],
        wants: stream_wants::<SessionState>(),
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once(), Operation::MatchLine.once()],
        replicas: Replicas::Apart("each follows the connections of its thread"),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_stream_member::<HttpRewriter>()
.with_session_function::<HttpRewriter>()
.with_buffer::<HttpRewriter>()
.with_hot_swap::<HttpRewriter>();

/// Limits of SPAN: what is held back has room in a stage.
const SPAN: std::ops::RangeInclusive<usize> = 1..=16 << 10;

#[derive(Handlers)]
#[handler(sum, name = "blocked", "requests blocked", get = self.rewriting.counts.blocked)]
#[handler(
    sum, name = "heads", "heads of which fields were changed", get = self.rewriting.counts.heads
)]
#[handler(
    sum, name = "edits", "places of bodies that were changed", get = self.rewriting.counts.edits
)]
#[handler(sum, name = "sessions_closed", "connections ended", get = self.stage.counts.closed)]
#[handler(like = GIVEN_UP, name = "given_up", get = given_up(&self.stage))]
#[handler(
    sum, name = "late", "times that bytes were let go because nothing came in time",
    get = self.stage.counts.late
)]
struct HttpRewriter {
    is_http: bool,
    stage: Stage,
    rewriting: Rewriting,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mut rules = Rules::default();
    for (index, rule) in args.rest() {
        let rule: String = args.parse(rule).map_err(|error| args.rest_error(index, error))?;
        rules.add(&rule).map_err(|problem| args.rest_error(index, problem))?;
    }
    if let Some(path) = args.opt::<String>("FILE")? {
        add_file(&mut rules, &path).map_err(|problem| args.error("FILE", problem))?;
    }
    let span = args.get::<usize>("SPAN")?;
    if !SPAN.contains(&span) {
        let message = format!("must be from {} to {}", SPAN.start(), SPAN.end());
        return Err(args.error("SPAN", message).into());
    }
    let rules = rules.ready().map_err(ArgErrors::whole)?;
    let stage = Stage::new(hold(args)?);
    let rewriting = Rewriting::new(rules, page(args)?, span);
    Ok(Box::new(HttpRewriter { is_http: false, stage, rewriting }))
}

/// Adds the rules of a file; all that are wrong are reported.
fn add_file(rules: &mut Rules, path: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|why| format!("{path}: {why}"))?;
    let mut problems = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Err(problem) = rules.add(line) {
            problems.push(format!("{path}:{}: {problem}", at + 1));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// The page that blocked requests get.
fn page(args: &Args<'_>) -> Result<Page, ArgErrors> {
    let status = args.get::<u16>("STATUS")?;
    if !(200..600).contains(&status) || [204, 304].contains(&status) {
        let message = "must be a status with a body, from 200 to 599";
        return Err(args.error("STATUS", message).into());
    }
    let elsewhere = args.get::<String>("ELSEWHERE")?;
    if !elsewhere.starts_with('/') || elsewhere.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(args.error("ELSEWHERE", "must be a path: it begins with /").into());
    }
    let kind = args.get::<String>("TYPE")?;
    if kind.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(args.error("TYPE", "must not have control characters").into());
    }
    let body = match args.opt::<String>("PAGE")? {
        Some(path) => {
            std::fs::read(&path).map_err(|why| args.error("PAGE", format!("{path}: {why}")))?
        }
        None => b"This page is blocked here.\n".to_vec(),
    };
    if body.len() > 32 << 10 {
        return Err(args.error("PAGE", "must have at most 32,768 bytes").into());
    }
    let head = format!(
        "HTTP/1.1 {status} Blocked\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    Ok(Page { head: head.into_bytes(), body, elsewhere: elsewhere.into_bytes() })
}

impl Element for HttpRewriter {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !self.is_http {
            return Err("it changes messages: put it between HTTPIn and HTTPOut".to_owned());
        }
        cx.arm_stage(&mut self.stage);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        cx.per_stream(&mut self.stage, &mut self.rewriting, port, batch);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == STAGE_TIMER {
            cx.stream_timer(&mut self.stage, &mut self.rewriting);
        }
    }
}

impl HotSwap for HttpRewriter {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(std::mem::take(&mut self.stage)))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(stage) = state.downcast::<Stage>() {
            self.stage.take_over(*stage);
        }
    }
}

impl Buffer for HttpRewriter {
    fn holding(&self) -> usize {
        self.stage.holding()
    }
}

impl SessionFunction for HttpRewriter {
    fn closed(&mut self, _cx: &mut Cx<'_>, state: &[u8], _why: Ended) {
        stream_ended(&mut self.stage, &mut self.rewriting, state);
    }
}

impl StreamMember for HttpRewriter {
    fn needs(&self) -> Option<Needs> {
        Some(Rewriting::NEEDS)
    }

    fn take_context(&mut self, layer: Layer) {
        self.is_http |= layer == Layer::Http;
    }
}
