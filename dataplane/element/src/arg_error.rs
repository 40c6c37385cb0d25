//! Errors in an element's arguments.

/// An error in an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgError {
    /// Which argument, counted as written; `None` for the configuration as a whole.
    pub index: Option<usize>,
    /// The error, and its remedy.
    pub message: String,
}

/// All that is wrong with an element's arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArgErrors(pub Vec<ArgError>);

impl ArgErrors {
    /// One error about the configuration as a whole.
    pub fn whole(message: impl Into<String>) -> ArgErrors {
        ArgErrors(vec![ArgError { index: None, message: message.into() }])
    }
}

impl From<ArgError> for ArgErrors {
    fn from(error: ArgError) -> ArgErrors {
        ArgErrors(vec![error])
    }
}

impl std::fmt::Display for ArgErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let end = if at + 1 == self.0.len() { "" } else { "\n" };
            write!(f, "{}{end}", error.message)?;
        }
        Ok(())
    }
}
