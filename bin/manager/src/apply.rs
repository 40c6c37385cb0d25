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
    /// A resource that names functions declared with it: the manager cannot check it before them.
    waiting: Vec<Target>,
}

impl Tried {
    /// Prints the planned actions, and marks those that are unknown yet.
    fn results(self) -> Vec<Done> {
        for target in &self.waiting {
            errln!("{target}: not checked, as it names functions that are not declared yet");
        }
        self.done
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
        // First all are only tried: files with an error change nothing.
        let Some(Tried { waiting, .. }) = self.try_all().await? else { return Ok(None) };
        let is_function = |target: &Target| target.kind == Kind::Function;
        let all = || self.declared.keys();
        let functions: Vec<&Target> = all().filter(|target| is_function(target)).collect();
        let others: Vec<&Target> = all().filter(|target| !is_function(target)).collect();
        let Some(mut done) = self.put_all(&functions, false).await? else { return Ok(None) };
        let waiting: Vec<&Target> = waiting.iter().collect();
        if self.put_all(&waiting, true).await?.is_none() {
            errln!("the functions were declared, and nothing else");
            return Ok(None);
        }
        let Some(more) = self.put_all(&others, false).await? else { return Ok(None) };
        done.extend(more);
        Ok(Some(done))
    }

    /// Checks all by a dry run; reports every refusal, and returns `None` if there was one.
    async fn try_all(&self) -> anyhow::Result<Option<Tried>> {
        let (mut tried, mut refused) = (Tried::default(), false);
        for (target, declared) in self.declared {
            match self.put(target, true).await? {
                Ok(done) => tried.done.push(done),
                Err(problem) if self.is_to_come(declared, &problem) => {
                    tried.waiting.push(target.clone());
                }
                Err(problem) => {
                    refused = true;
                    report(target, &problem);
                }
            }
        }
        if refused {
            errln!("nothing was changed");
        }
        Ok((!refused).then_some(tried))
    }

    /// Whether it was refused because it names a function that is declared with it.
    fn is_to_come(&self, declared: &Declared, problem: &Problem) -> bool {
        let references = declared.references().into_iter();
        let mut missing = references.filter(|one| Some(&one.field) == problem.field.as_ref());
        missing.any(|one| {
            let target = Target { kind: Kind::Function, name: one.name };
            self.declared.contains_key(&target)
        })
    }

    /// Declares these (or makes a dry run); reports every refusal, and returns `None` if there was
    /// one.
    async fn put_all(
        &self,
        targets: &[&Target],
        dry_run: bool,
    ) -> anyhow::Result<Option<Vec<Done>>> {
        let (mut all, mut refused) = (Vec::new(), false);
        for target in targets {
            match self.put(target, dry_run).await? {
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
