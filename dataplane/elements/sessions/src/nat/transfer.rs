//! Transfer of a session to another host, which uses the same outside port.

use thruway_element::Answers;
use thruway_wire::flow::FiveTuple;

use super::mapping::Mapping;
use super::sessions::{Filter, Translator};
use super::state::{Fate, HOLDS_PERMIT, HOLDS_PORT, HOLDS_SOURCE, NatSession, WORDS};

/// Bytes of an exported session.
const LEN: usize = WORDS * 8;

/// Appends the translation of a session's packets. A session that is neither translated nor kept
/// exports nothing.
pub(super) fn export(state: &NatSession, out: &mut Vec<u8>) -> bool {
    state.words().iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    matches!(state.fate(), Some(Fate::Translate | Fate::Keep))
}

impl Translator {
    /// Goes on with a session of another host: claims its outside port, and has the flow manager
    /// know its replies.
    pub(super) fn import(
        &mut self,
        bytes: &[u8],
        answers: &mut dyn Answers,
    ) -> Result<NatSession, &'static str> {
        let bytes: &[u8; LEN] = bytes.try_into().map_err(|_| "a NAT's state of another size")?;
        let (words, _) = bytes.as_chunks::<8>();
        let words: [u64; WORDS] = std::array::from_fn(|at| u64::from_be_bytes(words[at]));
        let state = NatSession::from_words(&words).ok_or("a NAT's state that means nothing")?;
        let Some(kind) = state.kind().filter(|_| state.is_translated()) else {
            answers.publish(&state.words());
            return Ok(state);
        };
        let (source, target) = (state.from.before(), state.to.before());
        let tuple = FiveTuple {
            src: source.0,
            dst: target.0,
            src_port: source.1,
            dst_port: target.1,
            protocol: kind.protocol(),
        };
        answers.publish(&state.words());
        let is_answered = answers.answer(&state.reply(tuple)).is_ok();
        is_answered.then_some(()).ok_or("another session has its replies")?;
        self.claim(state)
    }

    /// Has a session hold the outside port that it was translated to, where this has that to give.
    fn claim(&mut self, mut state: NatSession) -> Result<NatSession, &'static str> {
        let (Some(kind), (host, host_port)) = (state.kind(), state.from.before()) else {
            return Ok(state);
        };
        let (addr, port) = state.from.after();
        if (host, host_port) == (addr, port) {
            // Forwarded from outside: the rules keep its port.
            return Ok(state);
        }
        let address_index =
            self.ports.address_index(addr, port).ok_or("an outside address that is not here")?;
        let known = self.mappings.as_ref().and_then(|m| m.find_outside(address_index, port, kind));
        if let (Some(at), Some(mappings)) = (known, &mut self.mappings) {
            let mapping = mappings.get(at);
            if (mapping.host, mapping.host_port) != (host, host_port) {
                return Err("another host has its outside port");
            }
            mappings.hold(at);
            state.source = at;
            state.hold(HOLDS_SOURCE);
        } else {
            if self.mappings.as_ref().is_some_and(|mappings| !mappings.has_room()) {
                return Err("there is no room for its mapping");
            }
            if !self.ports.claim((address_index, port), kind) {
                return Err("its outside port is in use");
            }
            state.source = address_index;
            let kind = kind as u8;
            let new = Mapping { host, host_port, port, address_index, uses: 1, embryonic: 0, kind };
            match self.mappings.as_mut().map(|mappings| mappings.add(new)) {
                Some(Some(at)) => {
                    state.source = at;
                    state.hold(HOLDS_SOURCE);
                }
                _ => state.hold(HOLDS_PORT),
            }
        }
        if let (Some(mappings), Filter::Address) = (&mut self.mappings, self.filter)
            && mappings.permit(state.source, state.to.before().0)
        {
            state.hold(HOLDS_PERMIT);
        }
        state.tables = self.tables;
        self.created += 1;
        Ok(state)
    }
}
