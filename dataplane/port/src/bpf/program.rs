//! A program between sniffers and the stack. (That of AF_XDP is [`crate::classes::steering`].)

use super::assembly::Assembly;

/// Drops every packet in front of the host's stack.
pub(crate) fn drop_all() -> Assembly {
    /// `TCX_DROP`.
    const DROP: i32 = 2;
    let mut program = Assembly::default();
    program.give(DROP);
    program
}
