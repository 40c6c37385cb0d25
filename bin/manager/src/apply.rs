//! `apply`: what files declare is checked, all of it, and then declared.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use hyper::Method;
use thruway::errln;
use thruway_client::shown;
use thruway_manager::api::Problem;
use thruway_manager::api::views::ChangeView;
use thruway_manager::client::{Client, ClientError, Content};

use crate::change::{ChangeArgs, Done, print_changes};
use crate::file::{self, Declarations, Declared};
use crate::target::{Kind, Target};

/// Arguments of `apply`.
#[derive(Args)]
pub struct ApplyArgs {
    /// File of functions, groups and chains (YAML, JSON or TOML by its suffix), a directory of such
    /// files, or `-`
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,
    /// With --dry-run: estimate the cost of each chain's packets on the manager's host
    #[arg(long, requires = "dry_run")]
    estimate: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs the command.
pub async fn main(client: &Client, args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    let declared = file::read(&args.path)?;
    let order = Order { client, declared: &declared, estimate: args.estimate };
    let done = match args.change.dry_run {
        true => order.try_all().await?.map(Tried::results),
        false => order.declare().await?,
    };
    let Some(done) = done else { return Ok(ExitCode::FAILURE) };
    print_changes(&done, &args.change)?;
    Ok(ExitCode::SUCCESS)
}

/// The result of a dry run without a refusal.
#[derive(Default)]
struct Tried {
    done: Vec<Done>,
    /// A resource that names others declared with it: the manager cannot check it before them.
    waiting: Vec<Target>,
}

impl Tried {
    /// Prints the planned actions, and marks those that are unknown yet.
    fn results(self) -> Vec<Done> {
        for target in &self.waiting {
            errln!("{target}: not checked, as it names others that are not declared yet");
        }
        self.done
    }
}

/// Kinds of resources, each with its plural, in an order in which each names only those before it.
const KINDS: [(Kind, &str); 3] =
    [(Kind::Function, "functions"), (Kind::Group, "groups"), (Kind::Chain, "chains")];

/// Says what was declared before a refusal.
fn report_end(kinds: &[&str]) {
    match kinds {
        [] => errln!("nothing was changed"),
        _ => errln!("the {} were declared, and nothing else", kinds.join(" and ")),
    }
}

/// The declarations, and the manager that receives them.
struct Order<'a> {
    client: &'a Client,
    declared: &'a Declarations,
    estimate: bool,
}

impl Order<'_> {
    /// Declares all; a refused resource and those that name it are not declared.
    async fn declare(&self) -> anyhow::Result<Option<Vec<Done>>> {
        let (mut done, mut waiting) = (Vec::new(), self.all());
        // Resources of a kind name those of the kinds before it. All are tried as early as may be:
        // files with an error change nothing.
        let mut kinds: Vec<&str> = Vec::new();
        for (kind, plural) in KINDS {
            let Some(tried) = self.try_these(&waiting).await? else {
                report_end(&kinds);
                return Ok(None);
            };
            waiting = tried.waiting;
            let of_kind: Vec<Target> =
                self.declared.keys().filter(|target| target.kind == kind).cloned().collect();
            let Some(more) = self.put_all(&of_kind).await? else { return Ok(None) };
            if !more.is_empty() {
                kinds.push(plural);
            }
            done.extend(more);
        }
        Ok(Some(done))
    }

    /// Checks all by a dry run; reports every refusal, and returns `None` if there was one.
    async fn try_all(&self) -> anyhow::Result<Option<Tried>> {
        let tried = self.try_these(&self.all()).await?;
        if tried.is_none() {
            report_end(&[]);
        }
        Ok(tried)
    }

    fn all(&self) -> Vec<Target> {
        self.declared.keys().cloned().collect()
    }

    async fn try_these(&self, targets: &[Target]) -> anyhow::Result<Option<Tried>> {
        let (mut tried, mut refused) = (Tried::default(), false);
        for target in targets {
            match self.put(target, true).await? {
                Ok(done) => tried.done.push(done),
                Err(problem) if self.is_to_come(target, &problem) => {
                    tried.waiting.push(target.clone());
                }
                Err(problem) => {
                    refused = true;
                    report(target, &problem);
                }
            }
        }
        Ok((!refused).then_some(tried))
    }

    /// Whether it was refused because of a function or group that it names and that is declared
    /// with it.
    fn is_to_come(&self, target: &Target, problem: &Problem) -> bool {
        let references = self.declared.get(target).map(Declared::references).unwrap_or_default();
        let references = references.into_iter();
        let mut missing = references.filter(|one| Some(&one.field) == problem.field.as_ref());
        missing.any(|one| {
            let target = Target { kind: one.kind.into(), name: one.name };
            self.declared.contains_key(&target)
        })
    }

    /// Declares these; reports every refusal, and returns `None` if there was one.
    async fn put_all(&self, targets: &[Target]) -> anyhow::Result<Option<Vec<Done>>> {
        let (mut all, mut refused) = (Vec::new(), false);
        for target in targets {
            match self.put(target, false).await? {
                Ok(done) => all.push(done),
                Err(problem) => {
                    refused = true;
                    report(target, &problem);
                }
            }
        }
        Ok((!refused).then_some(all))
    }

    /// Declares one, or makes a dry run.
    async fn put(
        &self,
        target: &Target,
        dry_run: bool,
    ) -> anyhow::Result<Result<Done, Box<Problem>>> {
        let estimate = self.estimate && target.kind == Kind::Chain;
        let path = format!("{}?dry_run={dry_run}&estimate={estimate}", target.path());
        let body = serde_json::to_vec(&self.declared[target])?;
        let content = Content { body, ..Content::default() };
        match self.client.json::<ChangeView>(Method::PUT, &path, content).await {
            Ok(view) => {
                let what = if view.generation == 1 { "created" } else { "changed" }.to_owned();
                Ok(Ok(Done { target: target.clone(), view, what }))
            }
            Err(ClientError::Refused(problem)) => Ok(Err(problem)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reports a refusal.
fn report(target: &Target, problem: &Problem) {
    let field = problem.field.as_deref().map_or(String::new(), |at| format!(" ({at})"));
    errln!("{target}{field}: {}", shown(problem.detail.trim_end()));
}
