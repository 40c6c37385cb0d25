//! The lease of an agent: by it the operator knows that the agent is there.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::calls::explain;
use crate::manifests::HEARTBEAT;
use crate::names::host_namespace;
use crate::resource::HEARTBEAT_LABEL;

/// The heartbeat of a host.
pub struct Heart {
    api: Api<Lease>,
    host: String,
    duration: Duration,
}

impl Heart {
    /// Of a host whose lease holds for so long.
    pub fn new(client: &Client, host: &str, duration: Duration) -> Heart {
        let api = Api::namespaced(client.clone(), &host_namespace(host));
        Heart { api, host: host.to_owned(), duration }
    }

    /// Time between beats.
    pub fn period(&self) -> Duration {
        self.duration / 3
    }

    /// Renews the lease.
    ///
    /// # Errors
    /// What the API server says, or that it says nothing.
    pub async fn beat(&self) -> Result<(), String> {
        match tokio::time::timeout(self.period(), self.call()).await {
            Ok(done) => done.map_err(|error| explain(&error)),
            Err(_) => Err(format!("no answer in {:?}", self.period())),
        }
    }

    async fn call(&self) -> Result<(), kube::Error> {
        let seconds = i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX);
        let spec = LeaseSpec {
            holder_identity: Some(self.host.clone()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        };
        match self.api.get_opt(HEARTBEAT).await? {
            Some(mut lease) => {
                lease.spec = Some(spec);
                self.api.replace(HEARTBEAT, &PostParams::default(), &lease).await?;
            }
            None => {
                let metadata = ObjectMeta {
                    name: Some(HEARTBEAT.into()),
                    labels: Some([(HEARTBEAT_LABEL.into(), "agent".into())].into()),
                    ..ObjectMeta::default()
                };
                let lease = Lease { metadata, spec: Some(spec) };
                self.api.create(&PostParams::default(), &lease).await?;
            }
        }
        Ok(())
    }
}
