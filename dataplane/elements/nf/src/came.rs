//! Tokens that came back from a function, and elements that take them on as they are: without a
//! copy by way of the packet memory.

use std::any::Any;
use std::sync::Arc;

use thruway_element::Cx;
use thruway_exchange::{Mapped, Token};
use thruway_packet::Packet;

use super::framed::Frames;

/// A token that came back, for whoever takes it on.
pub(super) struct Came<'a, 's> {
    pub token: &'a Token<'s, Mapped>,
    /// Where in its frame the packet lay when it was put.
    pub entered: u32,
    /// Where its frame came from, if it is one of a group.
    pub frames: Option<&'a Arc<Frames>>,
    /// Whether the parked packet is what the function gives back: it says that it kept it, and the
    /// packet's own frame holds what was put.
    pub is_kept: bool,
}

/// An element of a function that takes tokens which came back from another one.
pub(super) trait TakesTokens {
    /// Whether it does, with what is known of packets or without.
    fn takes_tokens(&self, carry: bool) -> bool;

    /// Takes a token. Whether its frame went along; gives the packet back when it cannot come in
    /// this way.
    fn take_token(
        &mut self,
        cx: &mut Cx<'_>,
        input: u8,
        packet: Packet,
        came: &Came<'_, '_>,
    ) -> Result<bool, Packet>;

    /// All tokens of a round have come.
    fn end_tokens(&mut self, cx: &mut Cx<'_>);
}

/// An element as one that takes tokens, if it is one.
pub(super) type AsTaker = fn(&mut dyn Any) -> Option<&mut dyn TakesTokens>;
