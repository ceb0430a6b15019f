//! The desired state of several control elements in etcd.
//!
//! ```text
//!   store --changes--> [Election] --requests--> etcd (JSON gateway)
//!         <--results--      |     <--answers, watch--
//!   Control <--leads until, follows, state--'
//! ```
//!
//! A thread of its own renews the lease, so a busy control element does not lose it. But the thread hands every renewal to
//! the control element, so a process that stands still stops leading.

mod client;
mod gateway;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc as threads;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use weir_base::Span;
use weir_ce::configuration::EtcdPlan;
use weir_ce::election::{
    Answer, Election, Entry, Failure, Key, Number, Op, Output, Params, Request,
};
use weir_live::clock;
use weir_live::mutex::lock;

use self::client::Client;
use super::input::Input;
use super::store::shared::{Ask, Shared};
use super::store::{Health, Store, records, revocation};
use crate::tml::random;
use crate::tml::tls::provider;

/// Time for reading the whole state.
const READ_MAX: Duration = Duration::from_secs(3);

/// A control element's part in the election, before its start.
#[derive(Debug)]
pub struct Cluster {
    params: Params,
    client: Arc<Client>,
    state: Arc<Mutex<BTreeMap<String, String>>>,
    health: Arc<Mutex<Health>>,
    asks: (mpsc::UnboundedSender<Ask>, mpsc::UnboundedReceiver<Ask>),
}

/// Reports of the tasks for requests and for the watch.
enum News {
    Answer(Number, Result<Answer, Failure>),
    Events(Number, Vec<(String, Option<Key>)>),
    WatchEnded(Number, String),
}

impl Cluster {
    /// A part in the election; `next_to` resolves the names of files. Fails with the key of the section whose file cannot
    /// be used, if the reason belongs to one, and the reason.
    pub fn new(
        plan: &EtcdPlan,
        next_to: impl Fn(&str) -> PathBuf,
    ) -> Result<Self, (Option<&'static str>, String)> {
        let tls = tls(plan, next_to).map_err(|(key, why)| (Some(key), why))?;
        let health = Health {
            path: format!("etcd:{}", plan.prefix).into(),
            ..Health::default()
        };
        Ok(Self {
            params: Params {
                name: plan.name.clone(),
                process: u64::from_ne_bytes(random()),
                prefix: plan.prefix.clone(),
                lease: plan.lease,
            },
            client: Arc::new(Client::new(plan.endpoints.clone(), tls)),
            state: Arc::default(),
            health: Arc::new(Mutex::new(health)),
            asks: mpsc::unbounded_channel(),
        })
    }

    /// The store. It is empty until the part has started.
    pub fn store(&self) -> Store {
        let shared = Shared {
            state: Arc::clone(&self.state),
            asks: self.asks.0.clone(),
        };
        Store::shared(shared, Arc::clone(&self.health))
    }

    /// How long a dead leader may seem to lead: its lease, and the time in which etcd may elect its own leader.
    pub(super) fn hold(&self) -> Span {
        self.params.lease + Span::from_secs(2)
    }

    /// Starts the thread.
    pub(super) fn start(self, inputs: mpsc::Sender<Input>) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let work = move || runtime.block_on(self.run(inputs));
        std::thread::Builder::new()
            .name("ce-etcd".to_owned())
            .spawn(work)?;
        Ok(())
    }

    async fn run(mut self, inputs: mpsc::Sender<Input>) {
        let mut election = Election::new(clock::now(), self.params.clone());
        let (sender, mut news) = mpsc::unbounded_channel();
        let mut watch: Option<AbortHandle> = None;
        let mut asked: BTreeMap<Number, (Vec<Entry>, threads::Sender<_>)> = BTreeMap::new();
        let mut next = 0;
        election.handle_timeout(clock::now());
        loop {
            while let Some(output) = election.poll_output() {
                let input = match output {
                    Output::Request(number, request) => {
                        self.send(number, request, sender.clone());
                        None
                    }
                    Output::Watch(number, from) => {
                        let new = self.watch(number, from, sender.clone());
                        watch.replace(new).iter().for_each(AbortHandle::abort);
                        None
                    }
                    Output::Written(number, result) => {
                        if let Some((entries, answer)) = asked.remove(&number) {
                            if result.is_ok() {
                                self.apply(&entries);
                            }
                            let _ = answer.send(result); // the writer may have given up
                        }
                        None
                    }
                    other => self.told(other),
                };
                if let Some(input) = input
                    && inputs.send(input).await.is_err()
                {
                    return;
                }
            }
            let due = election.poll_timeout().map_or(Duration::MAX, clock::until);
            tokio::select! {
                ask = self.asks.1.recv() => match ask {
                    Some((Some(entries), answer)) => {
                        next += 1;
                        asked.insert(next, (entries.clone(), answer));
                        election.write(clock::now(), next, entries);
                    }
                    Some((None, answer)) => {
                        self.leave(election).await;
                        let _ = answer.send(Ok(())); // it may have ended meanwhile
                        return;
                    }
                    None => return,
                },
                Some(news) = news.recv() => match news {
                    News::Answer(number, answer) => election.handle_answer(clock::now(), number, answer),
                    News::Events(number, keys) => election.handle_watch(clock::now(), number, keys),
                    News::WatchEnded(number, why) => {
                        election.handle_watch_ended(clock::now(), number, &why);
                    }
                },
                () = tokio::time::sleep(due) => election.handle_timeout(clock::now()),
            }
        }
    }

    /// The input of the control element for an output of the election.
    fn told(&self, output: Output) -> Option<Input> {
        let mut health = lock(&self.health);
        match output {
            Output::Leads(until) => {
                health.leader = Some(self.params.name.clone());
                Some(Input::Leads(until))
            }
            Output::Follows(leader) => {
                health.leader.clone_from(&leader);
                Some(Input::Follows(leader))
            }
            Output::State(all) => {
                let entries = all
                    .iter()
                    .map(|(key, text)| (key.clone(), Some(text.clone())));
                let input = shared(entries, true);
                *lock(&self.state) = all;
                Some(input)
            }
            Output::Changed(entries) => {
                self.apply(&entries);
                Some(shared(entries, false))
            }
            Output::Trouble(Some(why)) => {
                tracing::warn!(why, "etcd does not answer");
                health.error = Some(why);
                None
            }
            Output::Trouble(None) => {
                tracing::info!("etcd answers again");
                health.error = None;
                None
            }
            Output::Request(..) | Output::Watch(..) | Output::Written(..) => None,
        }
    }

    fn apply(&self, entries: &[Entry]) {
        let mut state = lock(&self.state);
        for (key, text) in entries {
            match text {
                Some(text) => state.insert(key.clone(), text.clone()),
                None => state.remove(key),
            };
        }
    }

    fn send(&self, number: Number, request: Request, news: mpsc::UnboundedSender<News>) {
        let (client, time) = (Arc::clone(&self.client), self.time(&request));
        tokio::spawn(async move {
            let answer = client.ask(&request, time).await;
            let _ = news.send(News::Answer(number, answer)); // the thread may have ended
        });
    }

    /// Time for an answer: short, so that another member can renew the lease in time.
    fn time(&self, request: &Request) -> Duration {
        let all = &self.params.prefix;
        let reads_all = match request {
            Request::Range(prefix) => prefix == all,
            Request::Txn { then, .. } => then.contains(&Op::Range(all.clone())),
            Request::Compact(_) => false,
        };
        if reads_all {
            return READ_MAX;
        }
        Duration::from_nanos(self.params.lease.as_nanos() / 4)
    }

    fn watch(&self, number: Number, from: u64, news: mpsc::UnboundedSender<News>) -> AbortHandle {
        let (client, prefix) = (Arc::clone(&self.client), self.params.prefix.clone());
        let time = Duration::from_nanos(self.params.lease.as_nanos());
        let task = tokio::spawn(async move {
            let each = |message: &serde_json::Value| {
                let keys = gateway::events(message)?;
                let _ = news.send(News::Events(number, keys)); // the thread may have ended
                Ok(())
            };
            let why = client.watch(&prefix, from, time, each).await;
            let _ = news.send(News::WatchEnded(number, why));
        });
        task.abort_handle()
    }

    async fn leave(&self, mut election: Election) {
        election.leave(clock::now());
        while let Some(output) = election.poll_output() {
            if let Output::Request(_, request) = output {
                let _ = self.client.ask(&request, self.time(&request)).await; // else the lease ends by itself
            }
        }
    }
}

/// TLS for `https`, with the certificates that the section names.
fn tls(
    plan: &EtcdPlan,
    next_to: impl Fn(&str) -> PathBuf,
) -> Result<Option<Arc<ClientConfig>>, (&'static str, String)> {
    let Some(ca) = &plan.ca else {
        return Ok(None);
    };
    let certificates = |key, file: &str| {
        let wrong = |e: rustls::pki_types::pem::Error| (key, format!("{file}: {e}"));
        let all = CertificateDer::pem_file_iter(next_to(file)).map_err(wrong)?;
        all.map(|read| read.map_err(wrong))
            .collect::<Result<Vec<_>, _>>()
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates("ca", ca)? {
        roots
            .add(authority)
            .map_err(|e| ("ca", format!("{ca}: {e}")))?;
    }
    if roots.is_empty() {
        return Err(("ca", format!("{ca} has no certificate in PEM form")));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| ("ca", e.to_string()))?
        .with_root_certificates(roots);
    let Some((certificate, key)) = &plan.identity else {
        return Ok(Some(Arc::new(config.with_no_client_auth())));
    };
    let chain = certificates("certificate", certificate)?;
    let secret =
        PrivateKeyDer::from_pem_file(next_to(key)).map_err(|e| ("key", format!("{key}: {e}")))?;
    let config = config.with_client_auth_cert(chain, secret);
    let config = config.map_err(|e| ("certificate", format!("{certificate}: {e}")))?;
    Ok(Some(Arc::new(config)))
}

/// Entries of the state for the control element. Logs and omits entries that cannot be read.
fn shared(entries: impl IntoIterator<Item = Entry>, is_all: bool) -> Input {
    let (mut changes, mut revoked) = (Vec::new(), Vec::new());
    for (key, text) in entries {
        match revocation(&key).transpose() {
            Some(Ok(pin)) => revoked.push(pin),
            Some(Err(error)) => tracing::error!(error, "an entry in etcd is omitted"),
            None => match records(&key, text.as_deref()) {
                Ok(record) => changes.extend(record),
                Err(error) => tracing::error!(error, "an entry in etcd is omitted"),
            },
        }
    }
    Input::Shared {
        changes,
        revoked,
        is_all,
    }
}
