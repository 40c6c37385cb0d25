//! What passes FromDevice by short cuts in the kernel.

use thruway_element::{Cx, SHORT_CUT_TIMER};

use super::super::short_cuts::{self, PortShortCuts};
use super::FromDevice;

impl FromDevice {
    /// Tries sessions that could take short cuts, and counts what took one.
    pub(super) fn attend_short_cuts(&mut self, cx: &mut Cx<'_>) {
        let Some(own) = &mut self.short_cuts else { return };
        let was_used = own.is_used();
        let passed = own.attend(cx, self.has_udp);
        if !was_used && own.is_used() {
            cx.set_timer(SHORT_CUT_TIMER, cx.now().saturating_add(short_cuts::LOOK_NS));
        }
        self.count_passed(passed);
    }

    #[cold]
    pub(super) fn look_after_short_cuts(&mut self, cx: &mut Cx<'_>) {
        let Some(own) = &mut self.short_cuts else { return };
        let (passed, next) = own.look(cx);
        if let Some(after) = next {
            cx.set_timer(SHORT_CUT_TIMER, cx.now().saturating_add(after));
        }
        self.count_passed(passed);
    }

    pub(super) fn end_short_cuts(&mut self, cx: &mut Cx<'_>) {
        if let Some(mut own) = self.short_cuts.take() {
            let passed = own.end(cx);
            self.count_passed(passed);
        }
    }

    fn count_passed(&mut self, [packets, bytes]: [u64; 2]) {
        self.count += packets;
        self.bytes += bytes;
    }

    pub(super) fn describe_short_cuts(&self) -> String {
        self.short_cuts.as_ref().map_or_else(|| "none\n".to_owned(), PortShortCuts::text)
    }
}
