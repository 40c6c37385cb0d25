//! The connection to the API server, and the program's end.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Longest time until there is a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// How a program reaches the API server.
#[derive(Args)]
pub struct ClusterArgs {
    /// File that names the API server and this program's identity [default: $KUBECONFIG, else
    /// ~/.kube/config, else that of a pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Seconds that the lease of this program holds without renewal
    #[arg(long, value_name = "SECONDS", default_value_t = 15,
        value_parser = clap::value_parser!(u64).range(2..=600))]
    pub lease_seconds: u64,
}

impl ClusterArgs {
    /// A client of the API server.
    async fn client(&self) -> anyhow::Result<Client> {
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let name = || path.display().to_string();
                let read = Kubeconfig::read_from(path).with_context(name)?;
                let options = KubeConfigOptions::default();
                Config::from_custom_kubeconfig(read, &options).await.with_context(name)?
            }
            None => Config::infer()
                .await
                .context("no API server is named; give --kubeconfig FILE, or set KUBECONFIG")?,
        };
        config.connect_timeout = Some(CONNECT_TIME_MAX);
        Client::try_from(config).context("the API server")
    }
}

/// Runs `program` with a client until it ends, which it is asked to by SIGTERM or Ctrl-C.
pub fn run<F: Future<Output = ()>>(
    args: &ClusterArgs,
    program: impl FnOnce(Client, watch::Receiver<bool>) -> F,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime can be started")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
        let client = args.client().await?;
        let (end, ending) = watch::channel(false);
        let program = program(client, ending);
        let mut program = std::pin::pin!(program);
        tokio::select! {
            () = &mut program => return Ok(()),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        end.send_replace(true);
        program.await;
        Ok(())
    })
}
