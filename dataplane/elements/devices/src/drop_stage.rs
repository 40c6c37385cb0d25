//! An XDP program in front of an interface: it drops the packets that the chain behind would drop,
//! and notes the classes of others.

use std::fmt::Write as _;

use thruway_element::{Arg, ArgErrors, Args, Cx, Ty};
use thruway_flow::drop_table::{DEPTH_MAX, DropTable, TESTS_MAX};
use thruway_port::drop_stage::{DropStage, DropTests};

use super::device_in::DeviceIn;
use super::losses::{Lost, complain, say};
use super::port_spec::{Direction, PortSpec, Ports};

pub(super) const OFFLOAD: Arg = Arg::keyword(
    "OFFLOAD",
    Ty::Choice(&["NONE", "XDP"]),
    "XDP: an XDP program drops what the FlowClassifier behind would drop; by AF_XDP it also finds the \
     classes of other packets",
)
.or("NONE");

/// Arguments by which packets differ from the interface's frames.
const OTHER_PACKETS: [(&str, &str); 4] =
    [("SNAPLEN", "0"), ("FORCE_IP", "false"), ("LARGE", "false"), ("ENCAP", "")];

/// The program in front of an interface, if one is wanted.
pub(super) struct Offload {
    state: State,
}

enum State {
    /// None is wanted, or none is possible.
    Off,
    /// Not looked at yet, or what it was in front of is gone.
    Waiting,
    /// With how many packets were counted.
    On(Box<DropStage>, u64),
}

impl Offload {
    pub(super) fn of(args: &Args<'_>) -> Result<Offload, ArgErrors> {
        let is_wanted = args.choice("OFFLOAD")? == 1;
        if !is_wanted {
            return Ok(Offload { state: State::Off });
        }
        if !matches!(PortSpec::of(args, Direction::In)?, PortSpec::Interface(_)) {
            let why = "a capture has no XDP program; leave it out";
            return Err(args.error("OFFLOAD", why).into());
        }
        for (name, usual) in OTHER_PACKETS {
            if args.text(name).is_some_and(|text| text != usual) {
                let why = "OFFLOAD XDP looks at the interface's frames as they are; leave it out";
                return Err(args.error(name, why).into());
            }
        }
        Ok(Offload { state: State::Waiting })
    }

    /// Puts the program in front, if it is not there, and counts what it dropped. To be called when
    /// packets begin to flow, and every second or so.
    pub(super) fn look(&mut self, cx: &mut Cx<'_>, live: &DeviceIn, ports: &Ports) {
        self.count(cx);
        if let State::On(stage, _) = &self.state
            && !stage.is_attached()
        {
            // Another interface has the name, or the process reads it by other sockets.
            self.end(cx);
            self.state = State::Waiting;
        }
        if !matches!(self.state, State::Waiting) {
            return;
        }
        let name = &live.interface().name;
        match begin(cx, live, ports) {
            Ok((stage, what)) => {
                say(cx, name, &what);
                self.state = State::On(Box::new(stage), 0);
            }
            // It comes again.
            Err(_) if !live.is_there() => {}
            Err(why) => {
                let line = format!("OFFLOAD XDP is not possible, so all is classified here: {why}");
                complain(cx, &line);
                self.state = State::Off;
            }
        }
    }

    /// Takes the program away, and counts the last that it dropped.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>) {
        if let State::On(stage, counted) = std::mem::replace(&mut self.state, State::Off) {
            count(cx, stage.remove(), counted);
        }
    }

    fn count(&mut self, cx: &mut Cx<'_>) {
        if let State::On(stage, counted) = &mut self.state {
            let dropped = stage.dropped();
            count(cx, dropped, std::mem::replace(counted, dropped));
        }
    }
}

/// Counts packets as come and dropped.
fn count(cx: &mut Cx<'_>, dropped: u64, before: u64) {
    let news = dropped.saturating_sub(before) as usize;
    cx.count_made(news);
    cx.count_drops(Lost::Unwanted, news);
}

/// Puts the program in front; says what it does.
fn begin(cx: &mut Cx<'_>, live: &DeviceIn, ports: &Ports) -> Result<(DropStage, String), String> {
    let interface = live.interface();
    if !live.is_alone() {
        return Err("the host's stack sees the packets, too; give SNIFFER false".to_owned());
    }
    if ports.readers(&interface.name) > 1 {
        return Err("more than one FromDevice reads it".to_owned());
    }
    let table = table(cx, live.is_exclusive())?;
    let tests = DropTests {
        tests: table.tests.iter().map(|test| test.words()).collect(),
        starts: table.starts,
        leaves_errors: table.leaves_errors,
        depth: table.depth.min(DEPTH_MAX),
    };
    let stage = DropStage::install(&interface.name, &tests).map_err(|error| error.to_string())?;
    let mut what = format!(
        "an XDP program drops packets that nobody wants{} ({}, {} tests, at most {} for a packet)",
        if tests.has_classes() { " and notes the classes of others" } else { "" },
        stage.describe(),
        table.tests.len(),
        tests.depth
    );
    for (why, count) in &table.excluded {
        // Writing to a string cannot fail.
        let _ = write!(what, "; some are left to the chain: {why} ({count})");
    }
    Ok((stage, what))
}

/// The table of the classifier right behind; with classes if they are wanted and do not make it too
/// large.
fn table(cx: &mut Cx<'_>, wants_classes: bool) -> Result<DropTable, String> {
    let behind = cx.neighbours().leads_to(0).map(|(node, _)| node);
    let flows = cx.flows();
    let table = flows.and_then(|flows| {
        let entry = flows.entry_of_frames(behind?)?;
        let plan = flows.plan();
        let with_classes = wants_classes
            .then(|| DropTable::with_classes(plan, entry, TESTS_MAX))
            .flatten()
            .filter(DropTable::is_whole);
        with_classes.or_else(|| DropTable::of(plan, entry, TESTS_MAX))
    });
    let table = table.ok_or("it does not lead straight to a FlowClassifier of frames")?;
    if table.is_empty() {
        let why = "the chain drops no class of packets before its functions, and has no classes \
                   that could be found in front (by AF_XDP)";
        return Err(why.to_owned());
    }
    Ok(table)
}
