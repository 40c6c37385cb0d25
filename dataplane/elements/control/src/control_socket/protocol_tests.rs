//! Bytes, commands and answers.

use super::protocol::*;
use proptest::prelude::*;

fn commands(chunks: &[&[u8]]) -> Vec<Command> {
    let mut input = Input::new();
    let mut commands = Vec::new();
    for chunk in chunks {
        input.push(chunk);
        while let Some(command) = input.next() {
            commands.push(command);
        }
    }
    commands
}

fn handler(verb: Verb, name: &str, text: &str) -> Command {
    Command::Handler(verb, name.into(), text.into())
}

#[test]
fn lines_and_data() {
    assert_eq!(
        commands(&[
            b"read a.b\r\nWRITE c.d  x  y \n\nchec",
            b"kread e\rquit\r",
            b"\nwritedata f 3\r",
            b"\nabcREADDATA g 1\nx",
            b"WRITEUNTIL h END\r\n1\r\n END\r\nEND \r\nhelp\n",
        ]),
        [
            handler(Verb::Read, "a.b", ""),
            handler(Verb::Write, "c.d", "x  y"),
            handler(Verb::CheckRead, "e", ""),
            Command::Quit,
            handler(Verb::Write, "f", "abc"),
            handler(Verb::Read, "g", "x"),
            handler(Verb::Write, "h", "1\r\n END\r\n"),
            Command::Help,
        ]
    );
}

#[test]
fn mistakes() {
    let bad = |line: &[u8]| matches!(commands(&[line])[..], [Command::Invalid(..)]);
    assert!(bad(b"read\n") && bad(b"writedata x y\n"));
    assert!(bad(b"checkread a b\n") && bad(b"writedata x -1\n"));
    let fatal = |line: &[u8]| matches!(commands(&[line])[0], Command::Fatal(..));
    assert!(fatal(b"writedata x 99999999\n") && fatal(b"frob x\nread y\n"));
    assert!(fatal(&vec![b'x'; LINE_MAX + 1]));
    let long = [b"readuntil x\n".as_slice(), &vec![b'x'; LINE_MAX + 1]].concat();
    assert!(fatal(&long));
    let mut input = Input::new();
    input.push(b"writedata x 5\nab");
    assert_eq!(input.next(), None);
    input.closed = true;
    assert!(matches!(input.next(), Some(Command::Invalid(SYNTAX, _))));
    assert!(input.is_empty());
}

#[test]
fn nothing_follows_what_is_no_command() {
    for request in ["GET / HTTP/1.1", "POST / HTTP/1.1", "put x", "OPTIONS *", "PRI * HTTP/2.0"] {
        let said = format!("{request}\r\nwrite c.reset\r\n");
        assert_eq!(commands(&[said.as_bytes()]), [Command::Foreign], "{request}");
    }
    let parsed = commands(&[b"frob\nwrite c.reset\n"]);
    assert!(matches!(parsed[..], [Command::Fatal(UNIMPLEMENTED, _)]), "{parsed:?}");
    let value = "write w.word GET / HTTP/1.1\n";
    assert_eq!(commands(&[value.as_bytes()]), [handler(Verb::Write, "w.word", "GET / HTTP/1.1")]);
}

#[test]
fn strangers_say_their_token_and_nothing_else() {
    let first = |said: &[u8]| {
        let mut input = Input::of(false);
        input.push(said);
        let command = input.next();
        (command, input.bytes.capacity())
    };
    assert_eq!(first(b"auth x y\r\n").0, Some(Command::Auth("x y".into())));
    assert_eq!(first(b"quit\n").0, Some(Command::Quit));
    for said in ["read c.count\n", "writedata x 4000000\n", "readuntil x .\n", "help\n"] {
        let (command, _) = first(said.as_bytes());
        assert!(matches!(command, Some(Command::Fatal(PERMISSION, _))), "{said}");
    }
    let (command, _) = first(&[b'x'; STRANGER_LINE_MAX + 1]);
    assert!(matches!(command, Some(Command::Fatal(SYNTAX, _))));
}

#[test]
fn answers() {
    let mut out = Vec::new();
    answer(&mut out, 200, &["one:\ntwo", "thr\tee"]);
    data(&mut out, "x\n");
    assert_eq!(out, b"200-one:\r\n200-two\r\n200 thr?ee\r\nDATA 2\r\nx\n");
}

proptest! {
    /// However a stream is cut into pieces, the same commands come out.
    #[test]
    fn pieces_do_not_matter(
        lines in proptest::collection::vec(
            prop_oneof![
                Just("read a.b c\r\n"), Just("write x y\n"), Just("quit\r"), Just("\r\n"),
                Just("writedata d 4\r\nab\r\n"), Just("readuntil u .\nq\r\n.\r\n"),
                Just("frob\n"), Just("llrpc e 2\nzz"),
            ],
            0..8,
        ),
        cuts in proptest::collection::vec(1usize..9, 1..40),
    ) {
        let stream = lines.concat().into_bytes();
        let mut chunks = Vec::new();
        let mut rest = stream.as_slice();
        let mut cut = cuts.iter().cycle();
        while !rest.is_empty() {
            let (chunk, tail) = rest.split_at((*cut.next().unwrap()).min(rest.len()));
            chunks.push(chunk);
            rest = tail;
        }
        prop_assert_eq!(commands(&chunks), commands(&[&stream]));
    }

    /// Whatever comes, in whatever pieces: no panic, memory within its bounds, and nothing after
    /// the end of a connection.
    #[test]
    fn any_bytes(
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..64),
                Just(b"WRITEDATA x 4194304\r\n".to_vec()), Just(b"READUNTIL x .\n".to_vec()),
                Just(b"AUTH x\n".to_vec()), Just(b"\r".to_vec()), Just(b"LLRPC a 9\n".to_vec()),
                Just(b"read ".to_vec()), Just("WRITE \u{e9} \u{202e}\n".into()),
                (0usize..200_000).prop_map(|len| vec![b'x'; len]),
                (0usize..100_000).prop_map(|len| vec![b'\r'; len]),
            ],
            0..40,
        ),
        trusted in any::<bool>(),
        ends in any::<bool>(),
    ) {
        let mut input = Input::of(trusted);
        let mut over = false;
        for piece in &pieces {
            input.push(piece);
            while let Some(command) = input.next() {
                prop_assert!(!over, "{command:?}");
                over = matches!(command, Command::Fatal(..) | Command::Foreign);
                let mut out = Vec::new();
                if let Command::Invalid(code, message) | Command::Fatal(code, message) = command {
                    answer(&mut out, code, &[&message]);
                    let controls = out.iter().filter(|byte| **byte < b' ').count();
                    prop_assert_eq!(controls, 2);
                }
            }
            prop_assert!(input.bytes.len() <= DATA_MAX + LINE_MAX + 2 + piece.len());
        }
        input.closed |= ends;
        while let Some(command) = input.next() {
            prop_assert!(!over, "{command:?}");
        }
        prop_assert!(!ends || input.is_empty());
    }
}
