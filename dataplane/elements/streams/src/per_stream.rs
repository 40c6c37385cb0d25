//! The host of stream functions: shows each one the payload of sessions, at its place in the graph.

use thruway_element::{Cx, Direction, Scratch, StreamCursor, StreamFunction, Wants};
use thruway_flow::Fcb;
use thruway_flow::manager::{AccessByLevel, Manager};
use thruway_packet::{Batch, Packet};
use thruway_stream::content::{HasContent, flag};
use thruway_stream::stage::{Memory, Stage};
use zerocopy::FromBytes;

/// Token of the timer that releases bytes held back too long; an element with a [`Stage`] passes
/// its [`thruway_element::Element::timer`] on to [`PerStream::stream_timer`] for this token.
pub const STAGE_TIMER: u32 = u32::MAX;

/// The demand of a function of streams with this state per session.
pub const fn stream_wants<S>() -> Wants {
    let state = Scratch::of::<S>();
    let align = if state.align > 8 { state.align } else { 8 };
    let scratch = Scratch { size: size_of::<Memory>() + state.size, align };
    Wants { session: Some("connection"), scratch, ..Wants::NOTHING }
}

/// The host of stream functions: what an element that has one calls of its [`Cx`].
pub trait PerStream {
    /// Shows a function the payload of the packets of a batch that came in by input `port`, and
    /// sends them on by the output of the same number.
    fn per_stream<F: StreamFunction>(
        &mut self,
        stage: &mut Stage,
        function: &mut F,
        port: usize,
        batch: &mut Batch,
    );

    /// Releases the bytes that a stage has held back for too long, after the function has seen them
    /// for the last time.
    fn stream_timer<F: StreamFunction>(&mut self, stage: &mut Stage, function: &mut F);

    /// Sets the timer that releases a stage's held-back bytes, if it is not set: for a stage that
    /// another element has left.
    fn arm_stage(&mut self, stage: &mut Stage);
}

impl PerStream for Cx<'_> {
    fn per_stream<F: StreamFunction>(
        &mut self,
        stage: &mut Stage,
        function: &mut F,
        port: usize,
        batch: &mut Batch,
    ) {
        self.with_flows(|cx, flows| {
            let access = *flows.access(cx.node());
            let mut position = Position { flows, access: &access, port, now: cx.now() };
            let mut rest = batch.iter_mut().into_slice();
            while let Some(first) = rest.first() {
                let n = if first.content_mark().is_shown() { run_len(rest) } else { 1 };
                let (run, behind) = std::mem::take(&mut rest).split_at_mut(n);
                if run[0].content_mark().is_shown() {
                    forget_late(&mut run[0]);
                    position.show(stage, function, run);
                }
                rest = behind;
            }
        });
        self.arm_stage(stage);
        self.pass_on(port, batch);
    }

    fn stream_timer<F: StreamFunction>(&mut self, stage: &mut Stage, function: &mut F) {
        stage.is_armed = false;
        let now = self.now();
        while let Some((port, packet)) = stage.late(now) {
            let mut one = [packet];
            self.with_flows(|cx, flows| {
                let access = *flows.access(cx.node());
                Position { flows, access: &access, port, now }.show(stage, function, &mut one);
            });
            let [packet] = one;
            self.count_made(1);
            self.emit(port, packet);
        }
        self.arm_stage(stage);
    }

    fn arm_stage(&mut self, stage: &mut Stage) {
        if let Some(at) = stage.due().filter(|_| !stage.is_armed) {
            stage.is_armed = true;
            self.set_timer(STAGE_TIMER, at);
        }
    }
}

/// Notifies a function of the end of a session, with the arguments of
/// [`thruway_element::SessionFunction::closed`].
pub fn stream_ended<F: StreamFunction>(stage: &mut Stage, function: &mut F, scratch: &[u8]) {
    let Ok((mut memory, state)) = Memory::read_from_prefix(scratch) else { return };
    stage.forget(&mut memory);
    if let Ok((state, _)) = F::State::read_from_prefix(state) {
        function.ended(&state);
    }
}

/// Packets at the front that are shown at once.
#[inline]
fn run_len(packets: &[Packet]) -> usize {
    let continued = packets.windows(2).take_while(|pair| Stage::continues(&pair[0], &pair[1]));
    1 + continued.count()
}

/// A packet that was late for another function, which held it back, comes in order to the next one:
/// the mark does not apply to bytes that the next one holds back itself.
#[inline]
fn forget_late(packet: &mut Packet) {
    let mut mark = packet.content_mark();
    if mark.has(flag::LATE) {
        mark.flags &= !flag::LATE;
        packet.set_content_mark(mark);
    }
}

/// Where a function is shown packets.
struct Position<'a> {
    flows: &'a mut Manager,
    access: &'a AccessByLevel,
    port: usize,
    now: i64,
}

impl Position<'_> {
    /// Shows a run of packets of one session and direction.
    #[inline]
    fn show<F: StreamFunction>(&mut self, stage: &mut Stage, function: &mut F, run: &mut [Packet]) {
        let Some(at) = self.flows.locate(self.access, Fcb(run[0].fcb())) else { return };
        let (port, now) = (self.port, self.now);
        let Some((_, scratch)) = self.flows.enter_zeroed(&at) else { return };
        let Ok((memory, state)) = Memory::mut_from_prefix(scratch) else { return };
        let Ok((state, _)) = F::State::mut_from_prefix(state) else { return };
        let direction = usize::from(at.direction == Direction::Reply);
        // Released bytes are not held any more.
        if run[0].content_mark().has(flag::LATE) {
            Stage::let_go(memory, direction);
        }
        let mut process = |data: &mut StreamCursor<'_>| function.process(state, data);
        stage.run(memory, run, (port, direction, now), &mut process);
    }
}
