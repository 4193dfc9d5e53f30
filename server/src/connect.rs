//! Connection to a cell: its addresses, and the caller's certificate.

use crate::context::{self, Context, ContextError};
use clap::Args;
use omega_client::{Address, Tls};
use omega_service::check_key;
use omega_workload::readable;
use std::path::{Path, PathBuf};

/// The cell to call, through any of its replicas.
#[derive(Clone, Debug, Args)]
pub(crate) struct CellArgs {
    /// Addresses of the replicas, separated by commas and tried in turn [default: those of the current context, or
    /// 127.0.0.1:7600 without a context].
    #[arg(
        long,
        env = "OMEGA_CELL",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        value_parser = replica
    )]
    cell: Vec<String>,
    /// Use the cell of this context (see `omega context`) [default: the current context].
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Certificate of the authority that issued the replicas' certificates, if the cell uses TLS. The three --tls
    /// options must be given together [default: the files of the context].
    #[arg(long, env = "OMEGA_CA", value_name = "FILE.pem", value_parser = pem,
          requires_all = ["tls_cert", "tls_key"])]
    tls_ca: Option<Pem>,
    /// Your certificate, which the cell checks.
    #[arg(long, env = "OMEGA_CERT", value_name = "FILE.pem", value_parser = pem,
          requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<Pem>,
    /// Key of your certificate; only its owner may have access to the file.
    #[arg(long, env = "OMEGA_KEY", value_name = "FILE.key", value_parser = key,
          requires_all = ["tls_ca", "tls_cert"])]
    tls_key: Option<Pem>,
}

/// Contents of a file. The file is read when the arguments are parsed, so that a wrong path is reported like other
/// errors in arguments.
#[derive(Clone)]
struct Pem(Vec<u8>);

/// Omits the contents, which may be a key.
impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem")
    }
}

fn pem(file: &str) -> Result<Pem, String> {
    readable::read(Path::new(file)).map(Pem).map_err(|why| why.to_string())
}

fn key(file: &str) -> Result<Pem, String> {
    check_key(Path::new(file)).map_err(|why| why.to_string())?;
    pem(file)
}

/// Address of the cell if neither a flag nor a context gives one: the address at which `omega dev` and `omega serve`
/// listen by default.
const DEFAULT: &str = "127.0.0.1:7600";

/// Checks one address, so that an error is reported before the command waits for a connection.
pub(crate) fn replica(text: &str) -> Result<String, String> {
    Address::check(text).map_err(|error| error.message)?;
    Ok(text.to_owned())
}

impl CellArgs {
    /// The addresses and certificates of the flags, or else those of the context.
    ///
    /// # Errors
    /// If the context is unknown, or its files cannot be read.
    pub(crate) fn address(&self) -> Result<Address, ContextError> {
        let flags = [&self.tls_ca, &self.tls_cert, &self.tls_key];
        let has_cell = !self.cell.is_empty();
        if has_cell && self.context.is_some() && !self.is_of_environment() {
            return Err(ContextError::TwoCells);
        }
        // A context that is named takes precedence over the environment.
        if (self.context.is_some() || !has_cell)
            && let Some((name, context)) = context::chosen(self.context.as_deref())?
        {
            let [ca, cert, key] = Self::files(&name, &context)?;
            let [from_ca, from_cert, from_key] = flags.map(Option::as_ref);
            let tls = tls(
                from_ca.or(ca.as_ref()),
                from_cert.or(cert.as_ref()),
                from_key.or(key.as_ref()),
            );
            return Ok(Address { tls, ..Address::plain(context.cell) });
        }
        let cell = if self.cell.is_empty() { vec![DEFAULT.to_owned()] } else { self.cell.clone() };
        let [ca, cert, key] = flags.map(Option::as_ref);
        Ok(Address { tls: tls(ca, cert, key), ..Address::plain(cell) })
    }

    /// Whether the addresses equal those of the environment, and so may be from there.
    fn is_of_environment(&self) -> bool {
        std::env::var("OMEGA_CELL").is_ok_and(|text| text.split(',').eq(&self.cell))
    }

    /// Checks that a context has valid addresses, and that its files can be read.
    pub(crate) fn check(name: &str, context: &Context) -> Result<(), ContextError> {
        Self::files(name, context).map(drop)
    }

    /// The authority, certificate and key of a context.
    fn files(name: &str, context: &Context) -> Result<[Option<Pem>; 3], ContextError> {
        let wrong = |why: String| ContextError::Entry {
            file: context::path().unwrap_or_default(),
            name: name.to_owned(),
            why,
        };
        if context.cell.is_empty() {
            return Err(wrong("cell: must have at least one address".to_owned()));
        }
        for address in &context.cell {
            replica(address).map_err(|why| wrong(format!("cell: {why}")))?;
        }
        type Reader = fn(&str) -> Result<Pem, String>;
        let read = |field: &str, file: &Option<PathBuf>, reader: Reader| {
            let read = file.as_ref().map(|file| {
                let found = reader(&file.to_string_lossy());
                found.map_err(|why| wrong(format!("{field}: {}: {why}", file.display())))
            });
            read.transpose()
        };
        let files = [
            read("tls-ca", &context.tls_ca, pem)?,
            read("tls-cert", &context.tls_cert, pem)?,
            read("tls-key", &context.tls_key, key)?,
        ];
        let given = files.iter().flatten().count();
        if given != 0 && given != files.len() {
            return Err(wrong("tls-ca, tls-cert and tls-key must be given together".to_owned()));
        }
        Ok(files)
    }
}

/// The three files as one value, if all are given.
fn tls(ca: Option<&Pem>, certificate: Option<&Pem>, key: Option<&Pem>) -> Option<Tls> {
    let (ca, certificate, key) = (ca?, certificate?, key?);
    Some(Tls {
        authority: ca.0.clone(),
        certificate: certificate.0.clone(),
        key: key.0.clone(),
        server_name: None,
    })
}
