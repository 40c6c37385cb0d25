//! `openapi`: the description of the API.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::Value;
use thruway::out;
use thruway::table::Table;
use thruway_manager::api::{ROLES, openapi_text};

use crate::output::{Data, OutputArgs};

/// Runs the command.
pub fn main(output: OutputArgs) -> anyhow::Result<ExitCode> {
    let text = openapi_text();
    if output.is_wide() {
        let value = serde_json::from_str(&text).context("the description is no JSON")?;
        out!("{}", operations(&value).render());
        return Ok(ExitCode::SUCCESS);
    }
    match output.data() {
        Some(Data::Yaml) => Data::Yaml.print(&serde_json::from_str::<Value>(&text)?)?,
        Some(Data::Json) | None => out!("{text}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// A table of the operations of a description, with the role that each needs.
fn operations(description: &Value) -> Table {
    let mut table = Table::new(&["method", "path", "role", "what it does"]);
    for (method, path, role) in ROLES {
        let operation = &description["paths"][path][method.to_lowercase()];
        let what = operation["summary"].as_str().unwrap_or("Reads this description");
        let cells = [method, path, role.as_str(), what];
        table.row(cells.map(str::to_owned).to_vec());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_a_row() {
        let description = serde_json::from_str(&openapi_text()).expect("JSON");
        let text = operations(&description).render();
        assert_eq!(text.lines().count(), ROLES.len() + 1);
        let put = text.lines().find(|line| line.contains("PUT     /v1/chains/{name} "));
        let put = put.expect("a row").split_whitespace().collect::<Vec<_>>();
        assert_eq!(put, ["PUT", "/v1/chains/{name}", "operate", "Declares", "a", "chain"]);
        let unnamed = text.lines().filter(|line| line.ends_with("Reads this description"));
        assert_eq!(unnamed.count(), 1, "{text}");
    }
}
