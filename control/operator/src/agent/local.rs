//! The manager of the host, by its API.

use std::collections::BTreeMap;

use http_body_util::BodyExt as _;
use hyper::Method;
use thruway_manager::api::views::{ChainList, ChainView, ChangeView, List, ResourceView};
use thruway_manager::client::{Client, ClientError, Content, escape};
use thruway_manager::{ChainSpec, FunctionSpec, GroupSpec, MANAGED_BY_HEADER};
use tokio::sync::Notify;

use super::decide::{CLUSTER, LocalChain};

/// Items of a page.
const PAGE: usize = 500;

/// What a manager keeps.
pub struct Local {
    client: Client,
    /// Specifications by name and generation: a generation never changes.
    chains: BTreeMap<String, (u64, ChainSpec)>,
    functions: Known<FunctionSpec>,
    groups: Known<GroupSpec>,
}

/// Specifications by name, each with its generation.
type Known<S> = BTreeMap<String, (u64, S)>;

impl Local {
    /// What the manager behind this client keeps.
    pub fn new(client: Client) -> Local {
        Local { client, chains: BTreeMap::new(), functions: Known::new(), groups: Known::new() }
    }

    /// All chains.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn chains(&mut self) -> Result<BTreeMap<String, LocalChain>, ClientError> {
        let mut found = BTreeMap::new();
        let mut specs = BTreeMap::new();
        let mut after = None;
        loop {
            let page: ChainList = self.page("/v1/chains", after.as_deref()).await?;
            for view in page.items {
                let (name, generation) = (view.name, view.generation);
                let known = self.chains.remove(&name).filter(|(of, _)| *of == generation);
                let (generation, spec) = match known {
                    Some(known) => known,
                    None => {
                        let path = format!("/v1/chains/{}", escape(&name));
                        let view: ChainView = self.get(&path).await?;
                        (view.generation, view.spec.unwrap_or_default())
                    }
                };
                specs.insert(name.clone(), (generation, spec.clone()));
                found.insert(name, LocalChain { generation, spec, status: view.status });
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.chains = specs;
        Ok(found)
    }

    /// All functions.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn functions(&mut self) -> Result<BTreeMap<String, FunctionSpec>, ClientError> {
        self.functions = self.all("/v1/functions", &self.functions).await?;
        Ok(specs(&self.functions))
    }

    /// All groups.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn groups(&mut self) -> Result<BTreeMap<String, GroupSpec>, ClientError> {
        self.groups = self.all("/v1/groups", &self.groups).await?;
        Ok(specs(&self.groups))
    }

    /// All resources of a kind; those of `before` that are as they were are not asked for.
    async fn all<S: Clone + Default + serde::de::DeserializeOwned>(
        &self,
        path: &str,
        before: &Known<S>,
    ) -> Result<Known<S>, ClientError> {
        let mut specs = Known::new();
        let mut after = None;
        loop {
            let page: List<ResourceView<S>> = self.page(path, after.as_deref()).await?;
            for view in page.items {
                let (name, generation) = (view.name, view.generation);
                let known = before.get(&name).filter(|(of, _)| *of == generation).cloned();
                let known = match known {
                    Some(known) => known,
                    None => {
                        let path = format!("{path}/{}", escape(&name));
                        let view: ResourceView<S> = self.get(&path).await?;
                        (view.generation, view.spec.unwrap_or_default())
                    }
                };
                specs.insert(name, known);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(specs)
    }

    async fn page<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        after: Option<&str>,
    ) -> Result<T, ClientError> {
        let after = after.map(|name| format!("&after={}", escape(name))).unwrap_or_default();
        self.get(&format!("{path}?limit={PAGE}{after}")).await
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.client.json(Method::GET, path, Content::default()).await
    }

    /// Declares a function.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn declare_function(
        &self,
        name: &str,
        spec: &FunctionSpec,
    ) -> Result<(), ClientError> {
        self.put(("functions", name), spec, None).await
    }

    /// Declares a group.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn declare_group(&self, name: &str, spec: &GroupSpec) -> Result<(), ClientError> {
        self.put(("groups", name), spec, None).await
    }

    /// Declares a chain, over this generation of it (0: over none).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn declare(
        &self,
        name: &str,
        spec: &ChainSpec,
        over: u64,
    ) -> Result<(), ClientError> {
        self.put(("chains", name), spec, Some(over)).await
    }

    /// Takes a function back.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn take_back_function(&self, name: &str) -> Result<(), ClientError> {
        self.change(Method::DELETE, ("functions", name), Vec::new(), None).await
    }

    /// Takes a group back.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn take_back_group(&self, name: &str) -> Result<(), ClientError> {
        self.change(Method::DELETE, ("groups", name), Vec::new(), None).await
    }

    /// Takes a chain back, at this generation.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn take_back(&self, name: &str, at: u64) -> Result<(), ClientError> {
        self.change(Method::DELETE, ("chains", name), Vec::new(), Some(at)).await
    }

    async fn put(
        &self,
        resource: (&str, &str),
        spec: &impl serde::Serialize,
        over: Option<u64>,
    ) -> Result<(), ClientError> {
        let body = serde_json::to_vec(spec).unwrap_or_default();
        self.change(Method::PUT, resource, body, over).await
    }

    /// Changes the resource of a kind and a name.
    async fn change(
        &self,
        method: Method,
        (kind, name): (&str, &str),
        body: Vec<u8>,
        over: Option<u64>,
    ) -> Result<(), ClientError> {
        let path = format!("/v1/{kind}/{}", escape(name));
        let quoted = over.map(|generation| format!("\"{generation}\"")).unwrap_or_default();
        let mut headers = vec![(MANAGED_BY_HEADER, CLUSTER)];
        match over {
            None => {}
            Some(0) => headers.push(("if-none-match", "*")),
            Some(_) => headers.push(("if-match", quoted.as_str())),
        }
        let content = Content { headers: &headers, body };
        self.client.json::<ChangeView>(method, &path, content).await.map(|_| ())
    }
}

fn specs<S: Clone>(known: &Known<S>) -> BTreeMap<String, S> {
    known.iter().map(|(name, (_, spec))| (name.clone(), spec.clone())).collect()
}

/// Notifies of each event of the manager, until the stream ends.
///
/// # Errors
/// [`ClientError`].
pub async fn listen(client: &Client, changed: &Notify) -> Result<(), ClientError> {
    let events = client.open(Method::GET, "/v1/events", Content::default()).await?;
    let mut body = events.into_body();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(_) => changed.notify_one(),
            Err(error) => return Err(ClientError::Broken(error.to_string())),
        }
    }
    Ok(())
}
