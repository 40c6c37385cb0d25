//! Groups of functions that trust one another, as an operator declares them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::kind::{CheckError, Name, Reference, ResourceKind, Spec};
use crate::{FunctionName, GroupName, NameError};

/// Functions of a group at most.
pub const MEMBERS_MAX: usize = 64;

/// A group of trust: functions that may share memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// Its functions, each with its version, 1 to 64: `ids@1.2.0`.
    #[schema(value_type = Vec<String>)]
    pub functions: Vec<FunctionName>,
    /// Who asks for it and alone changes it, as `cluster`; anybody, if nobody is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
}

impl GroupSpec {
    /// Whether it names a version of a function.
    pub fn has(&self, version: &FunctionName) -> bool {
        self.functions.contains(version)
    }

    /// Whether the list is right by itself.
    ///
    /// # Errors
    /// It is empty or too long, or a function is in it twice.
    pub fn check(&self) -> Result<(), CheckError> {
        let wrong = |message: String| Err(CheckError::new("functions", message));
        let count = self.functions.len();
        if !(1..=MEMBERS_MAX).contains(&count) {
            return wrong(format!("a group has 1 to {MEMBERS_MAX} functions, this one {count}"));
        }
        let mut sorted: Vec<&FunctionName> = self.functions.iter().collect();
        sorted.sort();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => wrong(format!("'{}' is listed twice; list it once", pair[0])),
            None => Ok(()),
        }
    }
}

impl Name for GroupName {
    type Spec = GroupSpec;

    fn parse(text: &str) -> Result<GroupName, NameError> {
        GroupName::new(text)
    }

    fn as_str(&self) -> &str {
        self.as_str()
    }
}

impl Spec for GroupSpec {
    type Name = GroupName;

    const KIND: ResourceKind = ResourceKind::Group;

    fn lines(&self) -> String {
        let items = self.functions.iter().map(|name| format!("- {name}\n"));
        let owner = self.managed_by.iter().map(|owner| format!("managed_by: {owner}\n"));
        std::iter::once("functions:\n".to_owned()).chain(items).chain(owner).collect()
    }

    fn managed_by(&self) -> Option<&str> {
        self.managed_by.as_deref()
    }

    fn references(&self) -> Vec<Reference> {
        let reference = |(at, name): (usize, &FunctionName)| Reference {
            field: format!("functions[{at}]"),
            kind: ResourceKind::Function,
            name: name.to_string(),
        };
        self.functions.iter().enumerate().map(reference).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_bounded_and_has_each_function_once() {
        let group = |count: usize| {
            let names = (0..count).map(|number| format!("f@{number}"));
            let functions = names.map(|name| FunctionName::new(&name).expect("a name"));
            GroupSpec { functions: functions.collect(), managed_by: None }
        };
        assert_eq!((group(1).check(), group(MEMBERS_MAX).check()), (Ok(()), Ok(())));
        for count in [0, MEMBERS_MAX + 1] {
            assert_eq!(group(count).check().expect_err("bounded").field, "functions");
        }
        let mut twice = group(3);
        twice.functions.push(twice.functions[0].clone());
        let error = twice.check().expect_err("twice");
        assert_eq!(error.message, "'f@0' is listed twice; list it once");
        assert_eq!(group(2).lines(), "functions:\n- f@0\n- f@1\n");
        let of_cluster = GroupSpec { managed_by: Some("cluster".to_owned()), ..group(1) };
        assert_eq!(of_cluster.lines(), "functions:\n- f@0\nmanaged_by: cluster\n");
    }
}
