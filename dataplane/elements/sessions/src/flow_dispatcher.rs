//! FlowDispatcher: packets sorted by what the elements behind want of them.

use thruway_element::{
    Alias, Arg, ArgError, ArgErrors, Args, Changes, Cx, Demand, Element, Entry, FlowDispatch,
    HandlerError, Handlers, Hop, Operation, Purpose, Replicas, Rule, SessionFunction, ShortCut,
    Spec, Topic, Ty, reasons,
};
use thruway_flow::chain::useless_rule;
use thruway_flow::manager::Manager;
use thruway_flow::{
    Base, DROP, Expr, Fcb, IpProgram, NO_MATCH, PacketView, PatternProgram, SessionDef, parse_class,
};

use super::class_output::{Output, split};
use thruway_packet::{Batch, MAX_BATCH, Packet};

use thruway_elements_ip::dispatch::{Sorter, drop_for, verdict};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<FlowDispatcher>(
    Spec {
        name: "FlowDispatcher",
        aliases: &[
            Alias { name: "CTXDispatcher", summary: BY_CONTEXT },
            Alias { name: "FlowContextDispatcher", summary: BY_CONTEXT },
        ],
        topic: Topic::Sessions,
        summary: "sorts packets by traffic class",
        docs: "Each argument is a CLASS; a packet leaves by the output of the first that it is of, \
               and is dropped where it is of none. There is one output for each class. A class \
               that consists of patterns or is - may name its output instead, as in FastClick: \
               FlowDispatcher(9/01 0, 9/06 0, - drop) sends ICMP and TCP to output 0. A class \
               without a number then takes the output after the highest one so far.\n\n\
               As CTXDispatcher and FlowContextDispatcher, FastClick's further rules hold: packets \
               of a class with an unconnected output are dropped, and the last output takes \
               packets of no class if no class leads to it.\n\n\
               A CLASS is an expression of IPClassifier's (tcp && dst port 80), which holds for \
               IPv4 packets only; or arp, arp request, arp reply, ip, ip6, tcp6, udp6, icmp6, http \
               (TCP port 80 over IPv4, either end); a pattern of Classifier's (12/0806 20/0001); \
               fields with hexadecimal values, all of which must fit (ethertype/0800 ip proto/06 \
               dst port/0050); or - for every packet.\n\n\
               Without classes they follow from the elements downstream of each output: the first \
               one on the path that declares its needs. The path is followed through elements that \
               let the packets of an input leave by one output only and change no header. An \
               output behind which nothing is declared takes the rest, and there may be one of \
               them. A context link (a ~> b) is such a dispatcher.\n\n\
               Behind a FlowClassifier, packets have been sorted before they come here, by all \
               dispatchers' classes at once, and this one only looks up where they go. Elsewhere, \
               and behind elements that change headers, it looks at the packet; IP and transport \
               headers must then be marked, and a test of bytes that the packet does not have \
               fails.\n\n\
               SESSION gives all elements behind it sessions of this definition: connection, flow, \
               pair, source, destination, or a list of fields (src, dst, src port, dst port, \
               proto, frame[14]/0fff0000, ip[8]/00ff0000, transp[0]/ffff0000, http-header NAME) in \
               quotes, with 'both ways' at the end where the two directions are one session.\n\n\
               A class that no packet can be of, because an earlier one is the same or takes \
               everything, is an error.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> Strip(14) -> CheckIPHeader \
                  -> d :: FlowDispatcher(udp dst port 53, -); \
                  d[0] -> Counter -> Discard; d[1] -> Discard",
        ports: "1/-",
        processing: "h/h",
        args: &[
            Arg::rest("CLASS", Ty::Rule("CLASS"), "what an output gets"),
            Arg::keyword("SESSION", Ty::Rule("session definition"), "session of all behind it"),
        ],
        drops: Unsorted::DROPS,
        cost: &[Operation::Sort.once()],
        changes: Changes::Nothing,
        purpose: Purpose::DispatchLinks,
        replicas: Replicas::Alike,
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_flow_dispatch::<FlowDispatcher>()
.with_session_function::<FlowDispatcher>();

const BY_CONTEXT: &str = "FastClick's name; the last output takes the rest";

reasons! {
    /// Why a packet goes no further.
    enum Unsorted {
        NoClass = "no-class": "it is of no class that an output takes",
    }
}

/// How packets are sorted that have not been sorted before.
enum Program {
    /// Every class looks at the frame's bytes only.
    Pattern(PatternProgram),
    /// Classes look at IP and transport headers too.
    Ip(Box<IpProgram>),
}

impl Program {
    fn compile(rules: &[Rule]) -> Result<Program, String> {
        let frame_only = rules.iter().all(|rule| looks_at_frame_only(&rule.expr));
        let program = match frame_only {
            true => PatternProgram::compile(rules).map(Program::Pattern),
            false => IpProgram::compile(rules).map(|program| Program::Ip(Box::new(program))),
        };
        program.map_err(|error| error.to_string())
    }

    #[inline]
    fn classify(&self, packet: &Packet) -> u32 {
        let (frame, network) = (packet.data(), packet.network());
        match self {
            Program::Pattern(program) => program.classify(frame),
            Program::Ip(program) => {
                program.classify(&PacketView { frame, network, transport: packet.transport() })
            }
        }
    }
}

fn looks_at_frame_only(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_) => true,
        Expr::Test(word) => word.base == Base::Frame,
        Expr::Not(inner) => looks_at_frame_only(inner),
        Expr::All(list) | Expr::Any(list) => list.iter().all(looks_at_frame_only),
        Expr::Choice(cases, otherwise) => {
            let frame_only = |(case, then): &(Expr, Expr)| {
                looks_at_frame_only(case) && looks_at_frame_only(then)
            };
            cases.iter().all(frame_only) && looks_at_frame_only(otherwise)
        }
    }
}

#[derive(Handlers)]
#[handler(read, name = "program", "the compiled classes", read = self.read_program())]
#[handler(
    read, name = "classes", "the class of each output, a line each", get = self.classes.join("\n")
)]
struct FlowDispatcher {
    /// Its own; empty where they follow from what is behind it.
    rules: Vec<Rule>,
    /// The classes of the outputs, as written here or declared behind.
    classes: Vec<String>,
    session: Option<SessionDef>,
    outputs: usize,
    program: Program,
    ports: Box<[u32; MAX_BATCH]>,
    sorter: Sorter,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let outputs = args.env().outputs;
    let rules = rules(args)?;
    let session = args.text("SESSION").map(|text| {
        let text = thruway_element::text::unquote_text(text);
        SessionDef::parse(&text).map_err(|error| args.error("SESSION", error.message))
    });
    let program = Program::compile(&rules).map_err(ArgErrors::whole)?;
    Ok(Box::new(FlowDispatcher {
        rules,
        classes: args.rest().map(|(_, text)| text.to_owned()).collect(),
        session: session.transpose()?,
        outputs,
        program,
        ports: Box::new([0; MAX_BATCH]),
        sorter: Sorter::new(outputs),
    }))
}

/// The classes that the user wrote.
fn rules(args: &Args<'_>) -> Result<Vec<Rule>, ArgErrors> {
    let (mut rules, mut errors) = (Vec::new(), Vec::new());
    let names = args.names();
    let mut outputs = Outputs::of(args);
    for (index, text) in args.rest() {
        let (class, output) = split(text);
        let is_rest = class == "-";
        match parse_class(class, &names) {
            Ok(expr) => match outputs.next(output, is_rest) {
                Ok(output) => rules.push(Rule::new(expr, output)),
                Err(message) => errors.push(args.rest_error(index, message)),
            },
            Err(error) => {
                let hint =
                    error.suggestion.map_or(String::new(), |s| format!("; did you mean '{s}'?"));
                errors.push(args.rest_error(index, format!("{}{hint}", error.message)));
            }
        }
    }
    if !errors.is_empty() {
        return Err(ArgErrors(errors));
    }
    if let Some((at, same)) = useless_rule(&rules) {
        return Err(never(args, at, same).into());
    }
    outputs.finish(&mut rules).map_err(ArgErrors::whole)?;
    Ok(rules)
}

/// The outputs of classes, as they are written or follow from those before.
struct Outputs {
    connected: u32,
    /// The output of the next class that names none.
    next: u32,
    /// Some class named its output.
    explicit: bool,
    /// FastClick's rules for outputs hold.
    by_context: bool,
}

impl Outputs {
    fn of(args: &Args<'_>) -> Outputs {
        let connected = u32::try_from(args.env().outputs).unwrap_or(u32::MAX);
        let by_context = args.class() != "FlowDispatcher";
        Outputs { connected, next: 0, explicit: false, by_context }
    }

    /// The output of a class; `is_rest`: it is the class of every packet.
    fn next(&mut self, written: Option<Output>, is_rest: bool) -> Result<u32, String> {
        self.explicit |= written.is_some();
        let output = match written {
            Some(Output::Drop) => return Ok(DROP),
            Some(Output::Port(port)) => port,
            None => self.next,
        };
        let is_connected = output < self.connected;
        if is_connected || written.is_none() {
            self.next = self.next.max(output.saturating_add(1));
        }
        match is_connected {
            true => Ok(output),
            false if self.by_context && (written.is_some() || is_rest) => Ok(DROP),
            false if self.explicit => Err(format!(
                "output {output} is not connected; connect it, or write drop in its place"
            )),
            // One error about all classes says it, when they are counted.
            false => Ok(output),
        }
    }

    /// Checks that classes and outputs fit, and gives the last output the rest where it is due.
    fn finish(&self, rules: &mut Vec<Rule>) -> Result<(), String> {
        let connected = self.connected;
        if rules.is_empty() || self.next == connected {
            return Ok(());
        }
        if self.by_context && self.next < connected {
            if rules.iter().all(|rule| rule.expr != Expr::Const(true)) {
                rules.push(Rule::new(Expr::Const(true), connected - 1));
            }
            return Ok(());
        }
        if self.by_context || (self.explicit && self.next < connected) {
            return Ok(());
        }
        Err(format!(
            "{} classes, but {connected} outputs are connected; write one class for each output, \
             or none, so that they follow from the elements behind",
            rules.len()
        ))
    }
}

/// That no packet is sorted by a class.
fn never(args: &Args<'_>, at: usize, same: Option<usize>) -> ArgError {
    let index = args.rest().nth(at).map_or(0, |(index, _)| index);
    let message = match same {
        Some(other) => format!("no packet is left for class {at}: class {other} is the same"),
        None => format!(
            "no packet is left for class {at}: an earlier class takes all, or this one contradicts \
             itself; the first class that a packet is of counts, so write - last"
        ),
    };
    args.rest_error(index, message)
}

impl Element for FlowDispatcher {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let sorted = cx.with_flows(|cx, flows| self.sort(cx, Some(flows), batch));
        if sorted.is_none() {
            self.sort(cx, None, batch);
        }
    }
}

impl FlowDispatcher {
    /// Sends each packet of a batch where the flow manager's plan or, without one, the rules say.
    #[inline]
    fn sort(&mut self, cx: &mut Cx<'_>, flows: Option<&Manager>, batch: &mut Batch) {
        let node = cx.node();
        let hop = |packet: &Packet| match flows {
            Some(flows) => flows.hop(node, Fcb(packet.fcb())),
            None => Hop::InPlace,
        };
        if cx.is_probe() && batch.iter().any(|packet| hop(packet) == Hop::InPlace) {
            cx.spoil_probe();
        }
        let (program, outputs) = (&self.program, self.outputs);
        let port_of = |packet: &Packet| {
            let output = match hop(packet) {
                Hop::Output(output) => u32::from(output),
                Hop::Drop => NO_MATCH,
                Hop::InPlace | Hop::Never => program.classify(packet),
            };
            let exists = (output as usize) < outputs;
            if exists { output } else { drop_for(Unsorted::NoClass as u8) }
        };
        if batch.len() > MAX_BATCH {
            for packet in batch.drain() {
                let port = port_of(&packet);
                cx.apply(packet, verdict(port));
            }
            return;
        }
        let ports = &mut self.ports[..batch.len()];
        for (port, packet) in ports.iter_mut().zip(batch.iter()) {
            *port = port_of(packet);
        }
        let alike = ports.iter().all(|port| *port == ports[0]);
        self.sorter.send(cx, batch, ports, alike);
    }

    fn read_program(&mut self) -> Result<String, HandlerError> {
        Ok(match &self.program {
            Program::Pattern(program) => program.to_string(),
            Program::Ip(program) => program.to_string(),
        })
    }
}

impl SessionFunction for FlowDispatcher {
    fn demand(&self) -> Option<Demand> {
        Some(Demand::of(self.session.clone()?, 0, 1))
    }
}

impl FlowDispatch for FlowDispatcher {
    fn rules(&self) -> Vec<Rule> {
        self.rules.clone()
    }

    fn take_rules(&mut self, rules: &[Rule], classes: &[String]) -> Result<(), String> {
        self.program = Program::compile(rules)?;
        self.classes = classes.to_vec();
        Ok(())
    }
}
