//! Kinds of resources, and what all of them have in common.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::NameError;

/// What can be declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// Functions and what connects them: one data plane.
    Chain,
    /// A version of an executable.
    Function,
    /// Functions that trust one another.
    Group,
}

impl ResourceKind {
    /// How it stands in the database and in messages: `chain`.
    pub fn as_str(self) -> &'static str {
        match self {
            ResourceKind::Chain => "chain",
            ResourceKind::Function => "function",
            ResourceKind::Group => "group",
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name; its type tells the kind of what it names.
pub trait Name: Clone + fmt::Debug + fmt::Display + Ord + Send + Sync + 'static {
    /// What a resource of this name is declared by.
    type Spec: Spec<Name = Self>;

    /// Checks a name.
    ///
    /// # Errors
    /// It is not a name of this kind.
    fn parse(text: &str) -> Result<Self, NameError>;

    /// The name as text.
    fn as_str(&self) -> &str;
}

/// What a resource is declared by.
pub trait Spec:
    Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Names resources of this kind.
    type Name: Name<Spec = Self>;

    /// The kind.
    const KIND: ResourceKind;

    /// The specification as lines, for people and for diffs.
    fn lines(&self) -> String;

    /// Who alone changes it, if not anybody may.
    fn managed_by(&self) -> Option<&str> {
        None
    }

    /// Resources that must be declared for as long as this one is.
    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }
}

/// A resource that another one names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Field of the specification that names it: `functions[2]`.
    pub field: String,
    /// Its kind.
    pub kind: ResourceKind,
    /// Its name.
    pub name: String,
}

/// What is wrong with a specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CheckError {
    /// Field of the specification: `configuration`, `functions.words`.
    pub field: Cow<'static, str>,
    /// What is wrong and what to do, perhaps of many lines.
    pub message: String,
}

impl CheckError {
    /// What is wrong with a field.
    pub fn new(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> CheckError {
        CheckError { field: field.into(), message: message.into() }
    }
}
