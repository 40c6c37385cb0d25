//! Rules in the card of a port: it drops what the FlowClassifier behind would drop, and marks other
//! packets with their class.

use std::fmt::Write as _;
use std::sync::Arc;

use thruway_element::{Arg, ArgErrors, Args, Cx, Ty};
use thruway_flow::hardware_rules::{Act, HardwareRule, HardwareTable, RULES_MAX};
use thruway_port::dpdk::{Device, Flow, FlowAction, FlowItem, FlowRule};
use thruway_sync::atomic::{AtomicU32, Ordering};

use super::super::losses::{complain, say};

pub(in super::super) const OFFLOAD: Arg = Arg::keyword(
    "OFFLOAD",
    Ty::Choice(&["NONE", "FLOW"]),
    "FLOW: the card drops what the FlowClassifier behind would drop, and marks other packets with \
     their class",
)
.or("NONE");

/// Rules whose packets are asked for at a time: each is a call of the driver.
const ASKED: usize = 64;
/// Calls of the driver that may fail one after the other before the rest is left to the chain.
const FAILURES_MAX: usize = 32;
/// Marks have the class in the lower bits. Some cards have 24 bits for both.
const CLASS_BITS: u32 = 16;
const NUMBERS: u32 = 0xff;

/// Numbers of rule sets, in this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The number in the marks of the rules that a card has, for all threads that read its port; 0 if
/// it marks none.
#[derive(Default)]
pub(in super::super) struct MarkNumber(AtomicU32);

impl MarkNumber {
    pub(in super::super) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The rules in a card, if any are wanted.
pub(in super::super) struct Offload {
    state: RuleState,
    number: Arc<MarkNumber>,
}

enum RuleState {
    /// None are wanted, or none are possible.
    Off,
    /// Not looked at yet; with the rules of the classifier right behind, if one is there.
    Waiting(Option<HardwareTable>),
    On(Installed),
}

/// The rules that a card has.
struct Installed {
    /// In their order.
    flows: Vec<Flow>,
    /// Those that count: their index, and how many packets they counted.
    counted: Vec<(usize, u64)>,
    /// The first of them to ask next.
    next: usize,
}

impl Offload {
    pub(in super::super) fn of(args: &Args<'_>) -> Result<Offload, ArgErrors> {
        let state =
            if args.choice("OFFLOAD")? == 1 { RuleState::Waiting(None) } else { RuleState::Off };
        Ok(Offload { state, number: args.shared("marks", MarkNumber::default) })
    }

    /// The number in the marks that the card gives now.
    pub(in super::super) fn number(&self) -> &Arc<MarkNumber> {
        &self.number
    }

    /// Whether the rules are still to be made.
    pub(in super::super) fn is_waiting(&self) -> bool {
        matches!(self.state, RuleState::Waiting(_))
    }

    /// Finds out the rules, before packets flow: that may take its time.
    pub(in super::super) fn prepare(&mut self, cx: &mut Cx<'_>) {
        let RuleState::Waiting(table) = &mut self.state else { return };
        let Some((behind, _)) = cx.neighbours().leads_to(0) else { return };
        *table = cx.flows().and_then(|flows| {
            let plan = flows.plan();
            let entry = plan.nodes.get(behind as usize)?.entry?;
            HardwareTable::of(plan, entry as usize, RULES_MAX)
        });
    }

    /// Makes the rules. To be called when packets begin to flow; `readers` are the elements that
    /// read the port.
    pub(in super::super) fn begin(
        &mut self,
        cx: &mut Cx<'_>,
        device: &Arc<Device>,
        readers: usize,
    ) {
        let port = device.about().name.clone();
        if matches!(self.state, RuleState::Waiting(None)) {
            self.prepare(cx);
        }
        let RuleState::Waiting(table) = &mut self.state else { return };
        let table = table.take();
        match begin(cx, table, (device, readers)) {
            Ok((installed, number, what)) => {
                self.number.0.store(number, Ordering::Relaxed);
                self.state = RuleState::On(installed);
                say(cx, &port, &what);
            }
            Err(why) => {
                let line =
                    format!("OFFLOAD FLOW is not possible, so all is classified here: {why}");
                complain(cx, &line);
                self.state = RuleState::Off;
            }
        }
    }

    /// How many packets the card dropped since the last call, as far as it counts them. Asks for a
    /// part of its rules, or for `all`.
    pub(in super::super) fn dropped(&mut self, all: bool) -> usize {
        let RuleState::On(installed) = &mut self.state else { return 0 };
        let Installed { flows, counted, next } = installed;
        let count = if all { counted.len() } else { ASKED.min(counted.len()) };
        let mut dropped = 0;
        for _ in 0..count {
            *next = if *next + 1 < counted.len() { *next + 1 } else { 0 };
            let Some((flow, before)) = counted.get_mut(*next) else { continue };
            let now = flows.get(*flow).and_then(Flow::packets).unwrap_or(*before);
            dropped += now.saturating_sub(*before);
            *before = now;
        }
        dropped as usize
    }

    /// Takes the rules away, those first that others come before: so at no time does one take
    /// packets of another.
    pub(in super::super) fn end(&mut self) {
        self.number.0.store(0, Ordering::Relaxed);
        if let RuleState::On(installed) = std::mem::replace(&mut self.state, RuleState::Off) {
            take_away(installed.flows);
        }
    }

    /// Takes the rules away for another configuration; if that cannot begin, they come again.
    pub(in super::super) fn pause(&mut self) {
        let is_wanted = !matches!(self.state, RuleState::Off);
        self.end();
        if is_wanted {
            self.state = RuleState::Waiting(None);
        }
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        self.end();
    }
}

fn take_away(mut flows: Vec<Flow>) {
    while flows.pop().is_some() {}
}

/// What a card can do, and the words with which it first refused something.
struct Abilities<'a> {
    device: &'a Arc<Device>,
    counts: bool,
    marks: bool,
    words: Option<String>,
}

impl Abilities<'_> {
    /// A rule as the port takes it. `number` is that of the rules' marks.
    fn rule(&self, rule: &HardwareRule, number: u32) -> FlowRule {
        let items = rule.items().unwrap_or_default().into_iter().map(|item| FlowItem {
            header: item.header as u8,
            alone: item.alone,
            spec: item.spec,
            mask: item.mask,
        });
        let queues = self.device.about().rx_queues;
        let action = match rule.act {
            Act::Drop => FlowAction::Drop { counts: self.counts },
            Act::Class(class) => {
                let mark = (number << CLASS_BITS) | u32::from(class);
                FlowAction::Pass { queues, mark: self.marks.then_some(mark) }
            }
            Act::Pass(_) => FlowAction::Pass { queues, mark: None },
        };
        FlowRule { items: items.collect(), priority: rule.level, action }
    }

    fn takes(&mut self, rule: &HardwareRule) -> bool {
        let result = self.device.check_flow(&self.rule(rule, NUMBERS));
        match result {
            Ok(()) => true,
            Err(words) => {
                self.words.get_or_insert(words);
                false
            }
        }
    }

    /// Finds out whether the card marks packets, and whether it counts what it drops: by asking for
    /// the first rules that it may take.
    fn find(&mut self, table: &HardwareTable) {
        let is_marking = |rule: &&HardwareRule| matches!(rule.act, Act::Class(_));
        let is_dropping = |rule: &&HardwareRule| rule.act == Act::Drop;
        let rules = || table.rules().iter();
        self.marks = rules().filter(is_marking).take(ASKED).any(|rule| self.takes(rule));
        self.counts = rules().filter(is_dropping).take(ASKED).any(|rule| self.takes(rule));
    }
}

/// Makes the rules; says by which number they mark packets, and what they do.
fn begin(
    cx: &mut Cx<'_>,
    table: Option<HardwareTable>,
    (device, readers): (&Arc<Device>, usize),
) -> Result<(Installed, u32, String), String> {
    if readers > 1 {
        return Err("more than one FromDPDKDevice reads the port".to_owned());
    }
    let mut table = usable(cx, table)?;
    let mut abilities = Abilities { device, counts: true, marks: true, words: None };
    abilities.find(&table);
    if !abilities.marks {
        table = table.without_marks();
    }
    let wanted = table.rules().len();
    table.ask(|rule| abilities.takes(rule));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed) % (NUMBERS - 1) + 1;
    let flows =
        if table.is_empty() { Vec::new() } else { make(&mut table, &mut abilities, number) };
    if table.is_empty() {
        take_away(flows);
        let words = abilities.words.unwrap_or_else(|| "it takes no rule".to_owned());
        let driver = &device.about().driver;
        return Err(match wanted {
            0 => format!("the card marks no packets ({driver}: {words}), and no class is dropped"),
            _ => format!("the card refuses the rules ({driver}: {words})"),
        });
    }
    let what = describe(&table, &abilities);
    let rules = table.rules().iter().enumerate();
    let counted = rules.filter(|(_, rule)| rule.act == Act::Drop && abilities.counts);
    let counted = counted.map(|(at, _)| (at, 0)).collect();
    let marks = table.rules().iter().any(|rule| matches!(rule.act, Act::Class(_)));
    let number = if marks { number } else { 0 };
    Ok((Installed { flows, counted, next: 0 }, number, what))
}

/// Makes the rules in their order; those that fail are left out, with those behind that depend on
/// them.
fn make(table: &mut HardwareTable, abilities: &mut Abilities<'_>, number: u32) -> Vec<Flow> {
    let (mut flows, mut failures) = (Vec::new(), 0);
    while let Some(rule) = table.rules().get(flows.len()) {
        match abilities.device.make_flow(&abilities.rule(rule, number)) {
            Ok(flow) => {
                flows.push(flow);
                failures = 0;
            }
            Err(words) => {
                abilities.words.get_or_insert(words);
                failures += 1;
                match failures < FAILURES_MAX {
                    true => table.leave(flows.len()),
                    // There is no room, most probably.
                    false => table.truncate(flows.len()),
                }
            }
        }
    }
    flows
}

/// The rules, if packets come straight to a classifier that reads them as frames.
fn usable(cx: &mut Cx<'_>, table: Option<HardwareTable>) -> Result<HardwareTable, String> {
    let behind = cx.neighbours().leads_to(0).map(|(node, _)| node);
    let entry = cx.flows().and_then(|flows| flows.entry_of_frames(behind?));
    let table = table.filter(|_| entry.is_some());
    let table = table.ok_or("it does not lead straight to a FlowClassifier of frames")?;
    if table.is_empty() {
        let why = "the chain has no class of packets, dropped or not, that a card could find: see \
                   thruway offload plan --flow";
        return Err(why.to_owned());
    }
    Ok(table)
}

/// What the rules do, and what they leave to the chain.
fn describe(table: &HardwareTable, abilities: &Abilities<'_>) -> String {
    let [drops, marks, _] = table.counts();
    let counted = if abilities.counts { "counted" } else { "not counted: the card cannot" };
    let mut parts = Vec::new();
    if drops > 0 {
        parts.push(format!("{drops} drop packets that nobody wants ({counted})"));
    }
    if marks > 0 {
        parts.push(format!("{marks} note classes"));
    }
    let mut what = format!("{} rules of rte_flow: {}", table.rules().len(), parts.join(", "));
    let mut separator = "; left to the chain: ";
    for (why, count) in table.left() {
        // Writing to a string cannot fail.
        let _ = write!(what, "{separator}{why} ({count})");
        separator = ", ";
    }
    if let Some(words) = abilities.words.as_ref().filter(|_| !table.left().is_empty()) {
        let _ = write!(what, "; the driver's words: {words}");
    }
    what
}
