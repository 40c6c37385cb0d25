//! StatefulFirewall: rules for sessions, asked once for each.

use std::any::Any;
use std::sync::Arc;

use thruway_element::text::{join, split_args};
use thruway_element::{
    Answers, Arg, ArgError, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers,
    HotSwap, Names, Operation, Replicas, Resize, SessionFunction, SessionTransfer, ShortCut, Spec,
    Topic, Ty, Wants,
};
use thruway_flow::Ended;
use thruway_packet::Batch;
use zerocopy::{FromBytes, IntoBytes};

use thruway_elements_ip::rule_texts::listed;

use guard::{Decision, Guard, Kept, Settings};
use policy::Policy;
use refused::Refused;

mod guard;
mod policy;
mod refused;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<StatefulFirewall>(
    Spec {
        name: "StatefulFirewall",
        topic: Topic::Sessions,
        summary: "filters sessions: rules for the first packet, the rest follows",
        docs: "Input 0 is the inside, input 1 the outside; packets of input 0 leave by output 0, \
               those of input 1 by output 1. If one link carries both directions, only input 0 is \
               used.\n\n\
               Each RULE is [IN|OUT] ACTION PATTERN with IPFilter's actions (allow, deny, drop) \
               and patterns. OUT, or no word, is for sessions that begin at input 0, IN for those \
               that begin at input 1. When a session's first packet comes, the first matching rule \
               of its side decides for the session; no match denies. Later packets of both \
               directions follow that decision without a look at the rules, and so do ICMP errors \
               about them.\n\n\
               A TCP session must begin with a SYN, or it is refused; with PICKUP true its rules \
               are asked whatever its first packet is (for a firewall that is started while \
               connections are open). No state is kept of refused packets: its next packet asks \
               again. Refused packets leave by output 2, if that is connected.\n\n\
               The patterns are about IPv4. IPv6 sessions are all refused (IP6 deny), or may begin \
               inside (IP6 out), or on both sides (IP6 any). Packets without a session (fragments, \
               other protocols than IP, malformed headers) are refused, or with STATELESS true \
               judged by the rules of their side one by one; put IPReassembler in front where \
               fragments are to pass.\n\n\
               Rules that are written to handler rules replace all. Open sessions keep the \
               decision that they had; with RECHECK true each is asked about again at its next \
               packet, by the addresses, ports and protocol of its first, and ended where the new \
               rules deny it. So it is when a new configuration with other rules takes over. It is \
               FlowClassifier that finds sessions, so it must be upstream.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
                  ~> StatefulFirewall(deny tcp dst port 25, allow tcp or udp or icmp) -> Discard",
        ports: "1-2/1-3",
        processing: "h/h",
        flow: "[xz][yz]/xyz",
        args: &[
            Arg::rest("RULE", Ty::Rule("[IN|OUT] ACTION PATTERN"), "a rule"),
            Arg::keyword("PICKUP", Ty::Bool, "whether TCP sessions may begin without a SYN")
                .or("false"),
            Arg::keyword(
                "IP6",
                Ty::Choice(&["deny", "out", "any"]),
                "where IPv6 sessions may begin",
            )
            .or("deny"),
            Arg::keyword("STATELESS", Ty::Bool, "whether rules judge packets without a session")
                .or("false"),
            Arg::keyword("RECHECK", Ty::Bool, "whether new rules are for open sessions too")
                .or("false"),
        ],
        drops: Refused::DROPS,
        wants: Wants { shared_words: 1, ..Wants::session::<Decision>("connection") },
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once()],
        replicas: Replicas::Sharing(
            "the compiled rules; directions of a session that come in by two threads meet",
        ),
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_session_function::<StatefulFirewall>()
.with_hot_swap::<StatefulFirewall>()
.with_resize::<StatefulFirewall>()
.with_session_transfer::<StatefulFirewall>();

#[derive(Handlers)]
#[handler(
    both, name = "rules", "the rules; those written take the place of all",
    get = join(self.guard.policy().texts()), write = self.write_rules(value)
)]
#[handler(
    read, name = "program", "the compiled rules of both sides",
    get = self.guard.policy().explained()
)]
#[handler(
    sum, name = "hits", "a line per rule: how often it decided",
    get = lines(self.guard.counts().rules.iter().map(|rule| rule.hits))
)]
#[handler(
    sum, name = "sessions", "a line per rule: open sessions that it allowed",
    get = lines(self.guard.counts().rules.iter().map(|rule| rule.sessions))
)]
#[handler(sum, name = "open", "open sessions", get = self.guard.counts().open())]
#[handler(
    sum, name = "older", "open sessions that earlier rules allowed",
    get = self.guard.counts().older
)]
struct StatefulFirewall {
    name: String,
    names: Names,
    guard: Guard,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let env = args.env();
    let (name, names) = (env.name.to_owned(), args.names());
    let indices: Vec<usize> = args.rest().map(|(index, _)| index).collect();
    let compile = || {
        let texts = args.rest().map(|(_, text)| text.to_owned()).collect();
        Policy::compile(texts, &name, &names).map(Arc::new).map_err(|mistakes| {
            let mistake_of = mistakes.into_iter().map(|(rule, message)| {
                let index = rule.and_then(|rule| indices.get(rule).copied());
                ArgError { index, message }
            });
            ArgErrors(mistake_of.collect())
        })
    };
    // Replicas share what was compiled once.
    let shared: Arc<Result<Arc<Policy>, ArgErrors>> = args.shared("policy", compile);
    let policy = Arc::clone((*shared).as_ref().map_err(Clone::clone)?);
    let settings = Settings {
        pickup: args.get("PICKUP")?,
        stateless: args.get("STATELESS")?,
        recheck: args.get("RECHECK")?,
        ip6: match args.get::<String>("IP6")?.as_str() {
            "deny" => [false, false],
            "out" => [true, false],
            "any" => [true, true],
            other => {
                let message = format!("'{other}' is none of deny, out and any");
                return Err(args.error("IP6", message).into());
            }
        },
    };
    Ok(Box::new(StatefulFirewall { name, names, guard: Guard::new(policy, settings) }))
}

/// Numbers, a line each.
fn lines(numbers: impl Iterator<Item = u64>) -> String {
    let lines: Vec<String> = numbers.map(|number| number.to_string()).collect();
    lines.join("\n")
}

impl Element for StatefulFirewall {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for warning in self.guard.policy().warnings() {
            cx.log(warning);
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.guard.enter(port);
        cx.per_session(&mut self.guard, batch);
        if port == 1 {
            cx.emit_all(1, batch);
        }
    }
}

impl StatefulFirewall {
    fn write_rules(&mut self, value: &str) -> Result<(), HandlerError> {
        let texts = split_args(value).into_iter().map(|(text, _)| text).collect();
        let policy = Policy::compile(texts, &self.name, &self.names);
        let policy = policy.map_err(|mistakes| HandlerError::refused(listed(&mistakes)))?;
        self.guard.replace(Arc::new(policy));
        Ok(())
    }
}

impl HotSwap for StatefulFirewall {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.guard.hand_over()))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(kept) = state.downcast::<Kept>() {
            self.guard.take_over(*kept);
        }
    }
}

impl Resize for StatefulFirewall {
    fn join(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(kept) = state.downcast::<Kept>() {
            self.guard.join(*kept);
        }
    }

    fn separate(&mut self) -> Vec<Box<dyn Any + Send>> {
        let joined = self.guard.separate();
        joined.into_iter().map(|kept| Box::new(kept) as Box<dyn Any + Send>).collect()
    }

    fn beside(&self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.guard.beside()))
    }
}

impl SessionTransfer for StatefulFirewall {
    fn export(&self, state: &[u8], out: &mut Vec<u8>) -> bool {
        Decision::read_from_bytes(state).is_ok_and(|state| self.guard.export(state, out))
    }

    fn import(
        &mut self,
        bytes: &[u8],
        answers: &mut dyn Answers,
        state: &mut [u8],
    ) -> Result<(), &'static str> {
        let decision = self.guard.import(bytes, answers)?;
        decision.write_to(state).map_err(|_| "a state of another size")
    }
}

impl SessionFunction for StatefulFirewall {
    fn closed(&mut self, _cx: &mut Cx<'_>, state: &[u8], why: Ended) {
        if let Ok(state) = Decision::read_from_bytes(state) {
            thruway_element::PerSession::close(&mut self.guard, &state, why);
        }
    }
}

#[cfg(test)]
mod tests;
