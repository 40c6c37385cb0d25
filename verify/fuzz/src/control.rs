//! The protocol of ControlSocket: the commands do not depend on the pieces in which bytes come.

/// The protocol is private to its element; this is the same text.
#[path = "../../../dataplane/elements/control/src/control_socket/protocol.rs"]
#[allow(dead_code, reason = "answers are formatted by the element")]
mod protocol;

use protocol::Input;

/// The commands of a client that sends its bytes in pieces.
fn commands<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut input, mut commands) = (Input::new(), Vec::new());
    for piece in pieces {
        if input.closed {
            break;
        }
        input.push(piece);
        while let Some(command) = input.next() {
            commands.push(format!("{command:?}"));
        }
    }
    commands
}

/// See the module. The first byte is the length of pieces.
pub fn run(bytes: &[u8]) {
    let Some((len, bytes)) = bytes.split_first() else { return };
    let whole = commands(std::iter::once(bytes));
    let pieces = commands(bytes.chunks(usize::from(*len).max(1)));
    assert_eq!(whole, pieces);
}
