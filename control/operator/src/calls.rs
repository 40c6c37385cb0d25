//! Calls of the API server that the operator and agents both make.

use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What an action is about, as it was when the action was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// UID.
    pub uid: String,
    /// Resource version.
    pub resource_version: String,
}

impl Version {
    /// That of an object.
    pub fn of(object: &impl ResourceExt) -> Version {
        Version {
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
        }
    }
}

/// What is wrong, in the API server's words where it answered.
pub fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Server-side apply, as the owner of what is applied.
pub fn applying(owner: &str) -> PatchParams {
    PatchParams::apply(owner).force()
}

/// Takes a finalizer from an object, if that is as it was observed.
pub async fn release<K>(
    api: &Api<K>,
    name: &str,
    finalizer: &str,
    version: &Version,
) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let Some(found) = api.get_metadata_opt(name).await? else { return Ok(()) };
    if found.uid().as_deref() != Some(&version.uid)
        || found.resource_version().as_deref() != Some(&version.resource_version)
    {
        return Ok(());
    }
    let others: Vec<Value> =
        found.finalizers().iter().filter(|one| *one != finalizer).map(|one| json!(one)).collect();
    let change = json!({"metadata": {
        "uid": version.uid, "resourceVersion": version.resource_version, "finalizers": others,
    }});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await.map(|_| ())
}
