//! `get` and `describe`: resources as tables, pages and data.

use hyper::Method;
use thruway::{out, outln};
use thruway_client::shown;
use thruway_manager::api::views::GenerationList;
use thruway_manager::client::{Client, Content};

use crate::fetch::{all, all_whole, named, one};
use crate::output::OutputArgs;
use crate::page::page;
use crate::tables;
use crate::target::{Kind, Selection, Target};

/// Generations that `describe` shows.
const HISTORY_LEN: usize = 5;

/// Generations in wide output: a page.
const HISTORY_LEN_WIDE: usize = 500;

/// Lists resources. JSON and YAML output has their specifications: `apply` reads it.
pub async fn get(client: &Client, selection: Selection, output: OutputArgs) -> anyhow::Result<()> {
    if let Some(data) = output.data() {
        return match selection {
            Selection::All(kind) => data.print(&all_whole(client, kind).await?),
            Selection::Named(targets) => match targets.as_slice() {
                [target] => data.print(&one(client, target).await?),
                targets => data.print(&named(client, targets).await?),
            },
        };
    }
    let found = match &selection {
        Selection::All(kind) => all(client, *kind).await?,
        Selection::Named(targets) => named(client, targets).await?,
    };
    match selection {
        Selection::All(kind) if found.is_empty() => {
            let name = kind.name();
            outln!("no {name} is declared; declare some with `thruway apply FILE`");
        }
        _ => out!("{}", shown(&tables::render(&found, output.is_wide()))),
    }
    Ok(())
}

/// Shows a resource.
pub async fn describe(client: &Client, target: &Target, output: OutputArgs) -> anyhow::Result<()> {
    let resource = one(client, target).await?;
    if let Some(data) = output.data() {
        return data.print(&resource);
    }
    let limit = if output.is_wide() { HISTORY_LEN_WIDE } else { HISTORY_LEN };
    let history = match target.kind {
        Kind::Host => GenerationList { items: Vec::new(), next: None },
        // None of them has its specification, so it does not matter of which kind they are.
        _ => {
            let path = format!("{}/generations?limit={limit}", target.path());
            client.json(Method::GET, &path, Content::default()).await?
        }
    };
    out!("{}", shown(&page(&resource, &history)));
    Ok(())
}
