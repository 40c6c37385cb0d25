//! How a chain uses a version of a function.

use std::fmt;

use serde::{Deserialize, Serialize};
use thruway_element::text;

use crate::{FunctionName, FunctionSpec, NameError};

/// A version of a function and the arguments of its program: `words@1.0 attack hug`, as the `EXEC`
/// of an element `Nf` with the version in the place of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FunctionUse {
    /// The version.
    pub name: FunctionName,
    /// Arguments of the program, as a configuration writes them; variables in them are replaced.
    arguments: String,
}

/// Why a text is no use of a function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UseError {
    /// It does not begin with a version.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The arguments are more than a line.
    #[error("the arguments of '{0}' have control characters; write them in one line")]
    Arguments(FunctionName),
}

impl FunctionUse {
    /// Reads a version and what follows it.
    ///
    /// # Errors
    /// [`UseError`].
    pub fn parse(text: &str) -> Result<FunctionUse, UseError> {
        let (name, arguments) = text.split_once(' ').unwrap_or((text, ""));
        let name = FunctionName::new(name)?;
        match arguments.contains(char::is_control) {
            true => Err(UseError::Arguments(name)),
            false => Ok(FunctionUse { name, arguments: arguments.trim().to_owned() }),
        }
    }

    /// Another version with the same arguments.
    #[must_use]
    pub fn of_version(&self, name: FunctionName) -> FunctionUse {
        FunctionUse { name, arguments: self.arguments.clone() }
    }

    /// First arguments of the element `Nf` that runs `program` within the limits of the version.
    pub fn text(&self, program: &str, function: &FunctionSpec) -> String {
        let mut line = text::escaped(text::quote(program.as_bytes()).as_bytes());
        if !self.arguments.is_empty() {
            line.push(' ');
            // Not as `text::escaped`: variables are replaced.
            line += &self.arguments.replace('\\', "\\\\").replace('"', "\\\"");
        }
        let limits = function.limits.given();
        let limits = limits.map(|(name, value)| format!(", {} {value}", name.to_uppercase()));
        format!("EXEC \"{line}\"{}", limits.collect::<String>())
    }
}

impl TryFrom<String> for FunctionUse {
    type Error = UseError;

    fn try_from(text: String) -> Result<FunctionUse, UseError> {
        FunctionUse::parse(&text)
    }
}

impl From<FunctionUse> for String {
    fn from(one: FunctionUse) -> String {
        one.to_string()
    }
}

impl fmt::Display for FunctionUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FunctionUse { name, arguments } = self;
        if arguments.is_empty() { name.fmt(f) } else { write!(f, "{name} {arguments}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn used(text: &str) -> FunctionUse {
        FunctionUse::parse(text).expect("a use")
    }

    #[test]
    fn a_version_may_have_arguments() {
        for text in ["ids@1", "words@1.0 attack hug", "words@1.0 \"two words\" 'x'"] {
            assert_eq!(used(text).to_string(), text);
        }
        assert_eq!(used("ids@1  -v ").to_string(), "ids@1 -v");
        for text in ["", "ids", " ids@1", "ids@1\tx", "ids@1 a\nb", "/bin/ids", "IDS@1 x"] {
            assert!(FunctionUse::parse(text).is_err(), "{text:?}");
        }
        let error = FunctionUse::parse("ids@1 a\nb").expect_err("two lines").to_string();
        assert!(error.contains("arguments of 'ids@1'"), "{error}");
    }

    #[test]
    fn nf_takes_it_as_it_was_meant() {
        let limits = Limits {
            memory: Some("64M".into()),
            cpus: Some("1 2".into()),
            hang: Some("500ms".into()),
            attach_timeout: Some("5s".into()),
        };
        let function = FunctionSpec { limits, ..FunctionSpec::default() };
        let path = "/a \"b\" $c\\d/e";
        let written = used("ids@1 \"two words\" $WORD").text(path, &function);
        let arguments: Vec<String> =
            text::split_args(&written).into_iter().map(|(argument, _)| argument).collect();
        let limits = ["MEMORY 64M", "CPUS 1 2", "HANG 500ms", "ATTACH_TIMEOUT 5s"];
        assert_eq!(arguments[1..], limits);
        let line = text::unquote_text(arguments[0].strip_prefix("EXEC ").expect("a keyword"));
        let words = text::split_words(&line).into_iter().map(text::unquote_text);
        assert_eq!(words.collect::<Vec<_>>(), [path, "two words", "$WORD"]);
        let plain = used("ids@1").text("/ids", &FunctionSpec::default());
        assert_eq!(plain, r#"EXEC "\"/ids\"""#);
    }
}
