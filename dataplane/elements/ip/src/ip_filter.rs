//! IPFilter and IPClassifier: packets sorted by what their IP and transport headers say.

use std::sync::Arc;

use thruway_element::cost::Access;
use thruway_element::text::{join, split_args, split_words, unquote_text};
use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Changes, Cost, CostModel, Cx, Element, Entry, Handler,
    HandlerError, Handlers, Load, Names, Operation, Replicas, ShortCut, Spec, Topic, Ty, reasons,
};
use thruway_flow::{
    Common, DROP, IpProgram, Key, NO_MATCH, PacketView, parse_classifier_rules, parse_filter_rules,
};
use thruway_packet::{Batch, MAX_BATCH, Packet};

use super::dispatch::{Sorter, drop_for};
use super::rule_texts::{Mistake, listed, mistake_of, warnings};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "IPFilter",
        topic: Topic::Ip,
        summary: "filters IP packets by contents",
        docs: "Each argument is ACTION PATTERN: the action of the first pattern that matches is \
               done. allow is output 0, a number is that output, drop and deny drop the packet, as \
               does no match. An action alone is for every packet. `file NAME` stands for the rules of \
               a file, one on each line (# begins a comment). The patterns are IPClassifier's. \
               The packet's IP header must be marked (CheckIPHeader, MarkIPHeader).",
        example: "FastUDPFlows(0, 10, 60, 0:0:0:0:0:1, 1.0.0.1, 0:0:0:0:0:2, 2.0.0.2, 4, 2, \
                  STOP true) -> Unqueue -> Strip(14) -> CheckIPHeader -> \
                  IPFilter(allow udp dst port 53, deny all) -> Discard",
        ports: "1/-",
        processing: "h/h",
        straight: true,
        args: &[Arg::rest("RULE", Ty::Rule("ACTION PATTERN"), "a rule")],
        drops: Dropped::DROPS,
        handlers: &[
            Handler::read("program", "the rules as a decision program in Click's notation"),
            Handler::both("config", "the rules; those written take the place of all"),
        ],
        cost: &[Operation::ClassifyIp.once()],
        changes: Changes::Nothing,
        replicas: Replicas::Sharing("the compiled rules"),
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build_filter,
)
.with_cost_model::<IpFilter>()
.with_handlers::<IpFilter>();

reasons! {
    /// Why a packet goes no further.
    pub(crate) enum Dropped {
        Denied = "denied": "a drop or deny rule matched it",
        NoMatch = "no-match": "no pattern matched it",
    }
}

/// Which of the two elements it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Arguments are actions and patterns.
    Filter,
    /// Arguments are patterns, one for each output.
    Classifier,
}

/// The rules as written, and compiled.
struct Compiled {
    texts: Vec<String>,
    program: IpProgram,
    warnings: Vec<String>,
}

/// The inputs for another compilation.
struct Context {
    kind: Kind,
    outputs: usize,
    element: String,
    names: Names,
}

impl Context {
    /// Compiles rules.
    ///
    /// # Errors
    /// Every rule's first mistake; an error about all of them has no index.
    fn compile(&self, texts: Vec<String>) -> Result<Compiled, Vec<Mistake>> {
        let rules = match self.kind {
            Kind::Filter => parse_filter_rules(&texts, self.outputs as u32, &self.names),
            Kind::Classifier if texts.len() != self.outputs => {
                let (patterns, outputs) = (texts.len(), self.outputs);
                let message = format!("{patterns} patterns but {outputs} connected output(s)");
                return Err(vec![(None, message)]);
            }
            Kind::Classifier => parse_classifier_rules(&texts, &self.names),
        };
        let rules = rules.map_err(|errors| errors.iter().map(mistake_of).collect::<Vec<_>>())?;
        let program =
            IpProgram::compile(&rules).map_err(|error| vec![(None, error.to_string())])?;
        let places: Vec<usize> = (0..texts.len()).collect();
        let warnings = warnings(&self.element, &texts, &places, (&rules, &program));
        Ok(Compiled { texts, program, warnings })
    }
}

pub(super) struct IpFilter {
    context: Context,
    compiled: Arc<Compiled>,
    keys: Box<[Key; MAX_BATCH]>,
    verdicts: Box<[u32; MAX_BATCH]>,
    sorter: Sorter,
}

fn build_filter(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    build(args, Kind::Filter)
}

/// The rules and the arguments they come from: `file NAME` stands for the lines of a file.
fn written_rules(args: &Args<'_>, kind: Kind) -> Result<Vec<(usize, String)>, ArgErrors> {
    let mut rules = Vec::new();
    for (index, text) in args.rest() {
        let [word, name] = split_words(text)[..] else {
            rules.push((index, text.to_owned()));
            continue;
        };
        if kind != Kind::Filter || word != "file" {
            rules.push((index, text.to_owned()));
            continue;
        }
        let name = unquote_text(name);
        let lines = std::fs::read_to_string(&name)
            .map_err(|error| args.rest_error(index, format!("file {name}: {error}")))?;
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines = lines.filter(|line| !line.starts_with('#') && !line.starts_with("//"));
        rules.extend(lines.map(|line| (index, line.to_owned())));
    }
    Ok(rules)
}

/// Builds either.
pub(crate) fn build(args: &Args<'_>, kind: Kind) -> Result<Box<dyn Element>, ArgErrors> {
    let env = args.env();
    let context =
        Context { kind, outputs: env.outputs, element: env.name.to_owned(), names: args.names() };
    let compile = || {
        let (indices, texts) =
            written_rules(args, kind)?.into_iter().unzip::<_, _, Vec<usize>, _>();
        context.compile(texts).map(Arc::new).map_err(|errors| {
            let mistakes = errors.into_iter().map(|(rule, message)| {
                let index = rule.and_then(|rule| indices.get(rule).copied());
                ArgError { index, message }
            });
            ArgErrors(mistakes.collect())
        })
    };
    // Replicas share what was compiled once.
    let shared: Arc<Result<Arc<Compiled>, ArgErrors>> = args.shared("program", compile);
    let compiled = Arc::clone((*shared).as_ref().map_err(Clone::clone)?);
    Ok(Box::new(IpFilter {
        context,
        compiled,
        keys: Box::new([Key::default(); MAX_BATCH]),
        verdicts: Box::new([0; MAX_BATCH]),
        sorter: Sorter::new(env.outputs),
    }))
}

/// A packet's bytes as the compiled program looks at them.
#[inline]
pub fn view(packet: &Packet) -> PacketView<'_> {
    PacketView {
        // Only Ethernet addresses are asked for.
        frame: packet.mac_bytes(14).unwrap_or(&[]),
        network: packet.network(),
        transport: packet.transport(),
    }
}

/// A verdict as an output, or the drop it means.
#[inline]
fn port_of(verdict: u32) -> u32 {
    match verdict {
        DROP => drop_for(Dropped::Denied as u8),
        NO_MATCH => drop_for(Dropped::NoMatch as u8),
        output => output,
    }
}

impl IpFilter {
    #[cold]
    fn look_at_probe(&self, cx: &mut Cx<'_>, batch: &Batch) {
        let is_common = |packet: &Packet| {
            let is_tcp = packet.network().get(9) == Some(&6);
            self.compiled.program.is_common(&view(packet), Common { frame_at: 0, is_tcp })
        };
        if !batch.iter().all(is_common) {
            cx.spoil_probe();
        }
    }

    fn recompile(&mut self, texts: Vec<String>) -> Result<(), HandlerError> {
        let compiled = self.context.compile(texts);
        let compiled = compiled.map_err(|mistakes| HandlerError::refused(listed(&mistakes)))?;
        self.compiled = Arc::new(compiled);
        Ok(())
    }

    /// The number in a handler name `patternI`, if there is such a pattern.
    fn pattern(&self, name: &str) -> Option<usize> {
        let digits =
            name.strip_prefix("pattern").filter(|_| self.context.kind == Kind::Classifier)?;
        let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse().ok().filter(|at| plain && *at < self.compiled.texts.len())
    }
}

impl Element for IpFilter {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for warning in &self.compiled.warnings {
            cx.log(warning);
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if cx.is_probe() {
            self.look_at_probe(cx, batch);
        }
        let program = &self.compiled.program;
        let count = batch.len();
        if count > MAX_BATCH {
            let apply = |packet: &mut Packet| port_of(program.classify(&view(packet)));
            let ports: Vec<u32> = batch.iter_mut().map(apply).collect();
            return self.sorter.send(cx, batch, &ports, false);
        }
        let verdicts = &mut self.verdicts[..count];
        let packets = batch.iter().as_slice();
        for (key, packet) in self.keys.iter_mut().zip(packets) {
            let (network, transport) = (packet.network(), packet.transport());
            *key = Key::from_view(&PacketView { frame: &[], network, transport });
        }
        program.classify_batch(&self.keys[..count], |at| view(&packets[at]), verdicts);
        let first = verdicts.first().copied().unwrap_or(0);
        let mut differs = 0;
        for verdict in &mut *verdicts {
            differs |= *verdict ^ first;
            *verdict = port_of(*verdict);
        }
        self.sorter.send(cx, batch, verdicts, differs == 0);
    }
}

impl Handlers for IpFilter {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "program" => Ok(self.compiled.program.to_string()),
            "config" => Ok(join(&self.compiled.texts)),
            _ => match self.pattern(name) {
                Some(at) => Ok(self.compiled.texts[at].clone()),
                None => Err(HandlerError::no_read(name)),
            },
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        if name == "config" {
            return self.recompile(split_args(value).into_iter().map(|(text, _)| text).collect());
        }
        let at = self.pattern(name).ok_or_else(|| HandlerError::no_write(name))?;
        let mut texts = self.compiled.texts.clone();
        texts[at] = value.trim().to_owned();
        self.recompile(texts)
    }
}

impl CostModel for IpFilter {
    fn cost(&self, _load: &Load) -> Option<Vec<Cost>> {
        let program = &self.compiled.program;
        let (steps, bytes) = (program.steps(), program.memory_bytes());
        let decided = Operation::ClassifyIp.times(steps);
        let decided = decided.reaching(bytes as f64, 1.0, Access::Dependent);
        Some(vec![Operation::HeaderRead.once(), decided, Operation::Sort.once()])
    }
}

#[cfg(test)]
mod tests;
