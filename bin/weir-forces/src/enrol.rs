//! `weir-forces invite`, `enrol`, `renew` and `revoke`: certificates of control and forwarding elements.

use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use tokio::runtime::{Builder, Runtime};
use weir::configuration::{self, Admission};
use weir::output::{note, print};
use weir::{CeSocket, Failure};
use weir_forces_live::enrol::client::Fe;
use weir_forces_live::enrol::token::Token;
use weir_model::ApplyReport;
use weir_model::certificate::{
    Invitation, InviteRequest, RenewRequest, RevokeRequest, TOKEN_MINUTES_MAX,
};
use weir_northbound::client;

use crate::fe;

/// Longest line with a token.
const TOKEN_BYTES_MAX: u64 = 256;

#[derive(Debug, clap::Args)]
pub(crate) struct InviteArguments {
    /// Name of the forwarding element: edge1, for [fe.edge1] in the file of the control element
    fe: String,
    /// Lifetime of the token in minutes
    #[arg(long, default_value = "15", value_parser = clap::value_parser!(u32).range(1..=i64::from(TOKEN_MINUTES_MAX)))]
    minutes: u32,
    #[command(flatten)]
    ce: CeSocket,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EnrolArguments {
    /// Configuration file of the forwarding element
    config: PathBuf,
    /// The token; without it, one line of standard input, which other users of this machine cannot see
    token: Option<String>,
    /// The control element: NAME of its section [ce.NAME], if there are several
    #[arg(long, value_name = "NAME")]
    ce: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RenewArguments {
    /// Configuration file of a forwarding element; without it, the running control element renews its own certificate
    config: Option<PathBuf>,
    /// Control element: present the new certificate at once. Forwarding elements that do not trust it yet must enrol again
    #[arg(long, conflicts_with = "config")]
    now: bool,
    #[command(flatten)]
    ce: CeSocket,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArguments {
    /// Name of the forwarding element, or SHA-256 fingerprint of a certificate
    #[arg(value_name = "FE|SHA-256")]
    which: String,
    #[command(flatten)]
    ce: CeSocket,
}

/// `weir-forces invite`.
pub(crate) fn invite(arguments: &InviteArguments) -> Result<(), Failure> {
    let InviteArguments { fe, minutes, ce } = arguments;
    let request = InviteRequest {
        fe: fe.clone(),
        minutes: *minutes,
    };
    let made: Invitation = client::post(&ce.socket, "/v1/certificate/invite", &request)
        .map_err(|e| Failure::Run(e.to_string()))?;
    note(&format!(
        "{fe} can enrol once within {minutes} minutes: `weir enrol FE.toml`, then this line"
    ));
    print(&format!("{}\n", made.token))
}

/// `weir-forces revoke`.
pub(crate) fn revoke(arguments: &RevokeArguments) -> Result<(), Failure> {
    let request = RevokeRequest {
        which: arguments.which.clone(),
    };
    let path = "/v1/certificate/revoke";
    configuration::report(client::post::<ApplyReport>(
        &arguments.ce.socket,
        path,
        &request,
    ))
}

/// `weir-forces enrol`.
pub(crate) fn enrol(arguments: &EnrolArguments) -> Result<(), Failure> {
    let fe = read(&arguments.config)?;
    let config = arguments.config.display();
    let all = || {
        fe.ces
            .iter()
            .map(|ce| &*ce.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let ce = match &arguments.ce {
        Some(name) => fe.ces.iter().find(|ce| ce.name == *name).ok_or_else(|| {
            format!(
                "{config}: no [ce.{name}] with `enrol` and `certificate`; there are: {}",
                all()
            )
        }),
        None => match &fe.ces[..] {
            [only] => Ok(only),
            [] => Err(format!(
                "{config}: no [ce.NAME] has `enrol`, the address at which the control element enrols, like \
                 enrol = \"192.0.2.1:6708\", and `certificate`, the file that receives its certificate"
            )),
            _ => Err(format!(
                "{config}: choose a control element by --ce: {}",
                all()
            )),
        },
    };
    let ce = ce.map_err(Failure::Usage)?;
    let token = token(arguments.token.as_deref())?;
    let enrolled = runtime()?.block_on(fe.enrol(ce, &token));
    let lines = enrolled.map_err(|why| Failure::Run(format!("not enrolled: {why}")))?;
    print(&format!("{}\n", lines.join("\n")))
}

/// `weir-forces renew`.
pub(crate) fn renew(arguments: &RenewArguments) -> Result<(), Failure> {
    let Some(config) = &arguments.config else {
        let request = RenewRequest { now: arguments.now };
        let path = "/v1/certificate/renew";
        return configuration::report(client::post::<ApplyReport>(
            &arguments.ce.socket,
            path,
            &request,
        ));
    };
    let fe = read(config)?;
    if !fe.renews {
        return Err(Failure::Usage(format!(
            "{}: each [ce.NAME] needs `enrol`, because a control element without it would not get the new certificate",
            config.display()
        )));
    }
    let contacts = runtime()?.block_on(fe.contact(true));
    for change in &contacts.changes {
        print(&format!("{change}\n"))?;
    }
    match &contacts.failures[..] {
        [] => print("a running forwarding element uses it after a reload, or within an hour\n"),
        failures => Err(Failure::Run(failures.join("\n"))),
    }
}

/// The forwarding element of a configuration.
fn read(config: &Path) -> Result<Fe, Failure> {
    let text = configuration::read(config)?;
    let Admission { fe, .. } = configuration::here(config, &text)?;
    let fe = fe.as_ref().and_then(|fe| fe::enrolment(config, fe));
    fe.ok_or_else(|| {
        let config = config.display();
        Failure::Usage(format!(
            "{config}: [fe] needs `certificate` and `key`: the files that receive them"
        ))
    })
}

/// The token of the command line, or of standard input.
fn token(given: Option<&str>) -> Result<Token, Failure> {
    let text = match given {
        Some(text) => text.to_owned(),
        None => {
            let mut line = String::new();
            let input = io::stdin().lock().take(TOKEN_BYTES_MAX);
            let read = io::BufReader::new(input).read_line(&mut line);
            read.map_err(|e| Failure::Run(format!("standard input: {e}")))?;
            line
        }
    };
    text.parse().map_err(|e| Failure::Usage(format!("{e}")))
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| Failure::Run(e.to_string()))
}
