//! The arguments of a WordMatcher: Thruway's or FastClick's.

use thruway_element::{ArgError, ArgErrors, Args};

use super::list::{WORD_LEN_MAX, Wanted};
use super::matching::Mode;

/// The replacement of a word in FastClick without MSG.
const BLOCKED: &[u8] = b"<font color='red'>Blocked content !</font><br />";
/// How FastClick's words are written.
const KEYWORD: &str = "WORD";

/// The arguments.
pub(super) struct Asked {
    pub(super) wanted: Wanted,
    pub(super) mode: Mode,
    /// Takes the place of a word.
    pub(super) with: Vec<u8>,
    /// Overwrites a word.
    pub(super) mask: Vec<u8>,
    /// Every word that is found is reported.
    pub(super) reports: bool,
}

/// The word of a text `WORD x`.
fn keyword(text: &str) -> Option<&str> {
    text.strip_prefix(KEYWORD).filter(|word| word.starts_with(char::is_whitespace)).map(str::trim)
}

fn word(args: &Args<'_>, index: usize, text: &str) -> Result<Vec<u8>, ArgError> {
    let word: Vec<u8> = args.parse(text).map_err(|error| args.rest_error(index, error))?;
    let problem = match word.len() {
        0 => "a word has at least one byte".to_owned(),
        len if len > WORD_LEN_MAX => format!("a word has at most {WORD_LEN_MAX} bytes"),
        _ => return Ok(word),
    };
    Err(args.rest_error(index, problem))
}

impl Asked {
    /// Reads the arguments: they are FastClick's where a word is written `WORD x`.
    pub(super) fn read(args: &Args<'_>) -> Result<Asked, ArgErrors> {
        match args.rest().any(|(_, text)| keyword(text).is_some()) {
            true => Asked::fastclick(args),
            false => Asked::own(args),
        }
    }

    fn own(args: &Args<'_>) -> Result<Asked, ArgErrors> {
        for name in ["MSG", "ALL", "QUIET"] {
            if args.given(name) {
                return Err(args.error(name, "goes with words that are written WORD x").into());
            }
        }
        let mode = Mode::ALL[args.choice("MODE")?];
        let words = args.rest().map(|(index, text)| word(args, index, text));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let with = args.opt::<Vec<u8>>("WITH")?;
        if with.is_some() != (mode == Mode::Replace) {
            return Err(args.error("WITH", "goes with MODE REPLACE, which needs it").into());
        }
        let mask = args.opt::<Vec<u8>>("CHARACTER")?.unwrap_or_else(|| b"*".to_vec());
        if mask.len() != 1 {
            return Err(args.error("CHARACTER", "must be one byte").into());
        }
        Asked {
            wanted: wanted(args, words)?,
            mode,
            with: with.unwrap_or_default(),
            mask,
            reports: false,
        }
        .complete()
    }

    /// FastClick's: words are written WORD, what else has no name is MODE and MSG.
    fn fastclick(args: &Args<'_>) -> Result<Asked, ArgErrors> {
        for name in ["WITH", "CHARACTER"] {
            if args.given(name) {
                return Err(args
                    .error(name, "does not go with words that are written WORD x")
                    .into());
            }
        }
        args.opt::<bool>("ALL")?;
        let mut words = Vec::new();
        let mut others = Vec::new();
        for (index, text) in args.rest() {
            match keyword(text) {
                Some(text) => words.push(word(args, index, text)?),
                None => others.push((index, text)),
            }
        }
        let mut others = others.into_iter();
        let mode = match (args.given("MODE"), others.next()) {
            (false, Some((index, text))) => {
                let found = Mode::NAMES.iter().position(|name| *name == text);
                let names = Mode::NAMES.join(", ");
                found.ok_or_else(|| {
                    args.rest_error(index, format!("MODE: '{text}' is not one of {names}"))
                })?
            }
            (false, None) => MASK,
            (true, Some((index, _))) => {
                return Err(args.rest_error(index, "one argument too many").into());
            }
            (true, None) => args.choice("MODE")?,
        };
        let message = match others.next() {
            Some((index, text)) if !args.given("MSG") => {
                Some(args.parse::<Vec<u8>>(text).map_err(|error| args.rest_error(index, error))?)
            }
            _ => args.opt("MSG")?,
        };
        if let Some((index, _)) = others.next() {
            return Err(args.rest_error(index, "one argument too many").into());
        }
        let message = message.unwrap_or_else(|| BLOCKED.to_vec());
        let (with, reports) = (message.clone(), !args.get::<bool>("QUIET")?);
        let wanted = wanted(args, words)?;
        let mask = b"*".to_vec();
        // It overwrites a word there, and FULL puts the message in its place.
        let asked = match Mode::NAMES[mode] {
            "REPLACE" => Asked { wanted, mode: Mode::Mask, with, mask: message, reports: false },
            "ALERT" => Asked { wanted, mode: Mode::Alert, with, mask, reports },
            _ => Asked { wanted, mode: Mode::ALL[mode], with, mask, reports: false },
        };
        asked.complete()
    }

    fn complete(self) -> Result<Asked, ArgErrors> {
        match self.wanted.words.is_empty() && self.wanted.file.is_none() {
            true => Err(ArgErrors::whole("there is no word to look for: write WORD or FILE")),
            false => Ok(self),
        }
    }
}

/// Place of MASK, FastClick's default, among the modes.
const MASK: usize = 2;

fn wanted(args: &Args<'_>, words: Vec<Vec<u8>>) -> Result<Wanted, ArgErrors> {
    Ok(Wanted { words, file: args.opt("FILE")?, nocase: args.get("NOCASE")? })
}
