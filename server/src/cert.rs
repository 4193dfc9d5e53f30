//! `omega cert`: an authority and certificates, for development and small sites.
//!
//! docs/security.md describes their content, so any other authority can be used instead. Keys are written so that only
//! their owner can read them.

use clap::{Args, Subcommand};
use omega_service::identity::{self, IdentityError};
use omega_service::{Role, TlsError, read_key};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Make an authority, or have it issue a certificate.
#[derive(Debug, Subcommand)]
pub(crate) enum CertCommand {
    /// Create a certificate authority: DIR/ca.pem and DIR/ca.key. An existing authority is not replaced.
    Authority(AuthorityArgs),
    /// Issue a certificate: DIR/ROLE-NAME.pem and DIR/ROLE-NAME.key, replacing existing files.
    Issue(IssueArgs),
}

/// Make an authority.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  omega cert authority --dir certs")]
pub(crate) struct AuthorityArgs {
    /// Folder of the authority, created if missing.
    #[arg(long, value_name = "DIR", default_value = "certs")]
    dir: PathBuf,
    /// Validity in days, at most 7300.
    #[arg(long, value_name = "N", default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=7300))]
    days: u32,
}

/// Issue a certificate.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  omega cert issue operator/ann --cell-name prod\n  \
    omega cert issue replica/1 --cell-name prod --host db1.example.org")]
pub(crate) struct IssueArgs {
    /// Role and name in the certificate: operator/ann, reader/dashboard, submitter/bob, application/render,
    /// scheduler/web, agent/MACHINE or replica/1. docs/security.md describes the roles.
    #[arg(value_name = "ROLE/NAME")]
    whom: String,
    /// Name of the cell.
    #[arg(long, value_name = "NAME")]
    cell_name: String,
    /// Folder of the authority; the certificate is also written there.
    #[arg(long, value_name = "DIR", default_value = "certs")]
    dir: PathBuf,
    /// Host names and addresses of a replica, separated by commas; ignored for other roles.
    #[arg(long, value_name = "HOST", value_delimiter = ',', default_value = "127.0.0.1,localhost")]
    host: Vec<String>,
    /// Tenant whose jobs a scheduler may place, a reader may see, or a submitter or application may submit. May be
    /// repeated. Required for a submitter and an application [default for a scheduler and a reader: all tenants].
    #[arg(long, value_name = "NAME")]
    tenant: Vec<String>,
    /// Highest precedence of the jobs that a scheduler may place, or that a submitter or application may submit
    /// [default: unlimited for a scheduler, 0 for a submitter or application].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    precedence_max: Option<i32>,
    /// Validity in days, at most 3650.
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
}

/// Reason for which nothing was issued, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertError {
    /// A file cannot be written or read. Name another folder, or make room on the disk.
    #[error("{}: {why}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Underlying error.
        why: io::Error,
    },
    /// The folder has an authority already. Use this authority, or name another folder: a new authority would
    /// invalidate all certificates of the old authority.
    #[error("{}: this folder already contains an authority: choose another folder with --dir", .0.display())]
    AuthorityExists(PathBuf),
    /// The underlying error.
    #[error(transparent)]
    Key(#[from] TlsError),
    /// The name is not valid in certificates. Correct it.
    #[error(transparent)]
    Name(#[from] IdentityError),
    /// The role or name is not valid. Correct it.
    #[error(
        "{0:?} must be ROLE/NAME, where ROLE is operator, reader, submitter, application, scheduler, \
         agent or replica, and NAME has only letters, digits and ._~- (the NAME of a replica is its \
         number); a submitter and an application need --tenant (see docs/security.md)"
    )]
    Whom(String),
    /// The certificate cannot be made. Correct the name, or make another authority.
    #[error("the certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// Runs the command.
pub(crate) fn run(command: &CertCommand) -> Result<(), CertError> {
    match command {
        CertCommand::Authority(args) => authority(args),
        CertCommand::Issue(args) => issue(args),
    }
}

fn authority(args: &AuthorityArgs) -> Result<(), CertError> {
    let (certificate, key) = (args.dir.join("ca.pem"), args.dir.join("ca.key"));
    if certificate.exists() || key.exists() {
        return Err(CertError::AuthorityExists(args.dir.clone()));
    }
    fs::create_dir_all(&args.dir).map_err(|why| file_error(&args.dir, why))?;
    let mut params = lasting(args.days);
    params.distinguished_name.push(DnType::CommonName, "omega authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let pair = KeyPair::generate()?;
    let made = params.self_signed(&pair)?;
    write(&key, &pair.serialize_pem())?;
    write(&certificate, &made.pem())?;
    println!("{}", certificate.display());
    Ok(())
}

fn issue(args: &IssueArgs) -> Result<(), CertError> {
    let uri = uri(args);
    let role = identity::read(&uri, &args.cell_name).map_err(|why| match why {
        IdentityError::Malformed(_) => CertError::Whom(args.whom.clone()),
        why => why.into(),
    })?;
    let authority = args.dir.join("ca.pem");
    let pem = fs::read_to_string(&authority).map_err(|why| file_error(&authority, why))?;
    let key = read_key(&args.dir.join("ca.key"))?;
    let issuer = KeyPair::from_pem(&String::from_utf8_lossy(&key))?;
    let issuer = Issuer::from_ca_cert_pem(&pem, issuer)?;
    let mut params = lasting(args.days);
    params.distinguished_name.push(DnType::CommonName, args.whom.as_str());
    params.subject_alt_names.push(SanType::URI(Ia5String::try_from(uri)?));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if let Role::Replica(_) = role {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        for host in &args.host {
            params.subject_alt_names.push(match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(Ia5String::try_from(host.as_str())?),
            });
        }
    }
    let pair = KeyPair::generate()?;
    let made = params.signed_by(&pair, &issuer)?;
    let name = args.whom.replace('/', "-");
    let certificate = args.dir.join(format!("{name}.pem"));
    if certificate.exists() {
        eprintln!(
            "omega: {} and its key are replaced; the earlier certificate is valid until it expires \
             or is revoked",
            certificate.display()
        );
    }
    write(&args.dir.join(format!("{name}.key")), &pair.serialize_pem())?;
    write(&certificate, &made.pem())?;
    println!("{}", certificate.display());
    Ok(())
}

fn uri(args: &IssueArgs) -> String {
    let tenants = args.tenant.iter().map(|tenant| format!("tenant={tenant}"));
    let precedence = args.precedence_max.map(|max| format!("precedence-max={max}"));
    let query = tenants.chain(precedence).collect::<Vec<_>>().join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    format!("omega://{}/{}{mark}{query}", args.cell_name, args.whom)
}

/// Parameters of a certificate that is valid for this number of days from now.
fn lasting(days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    let now = SystemTime::now();
    // The certificate is valid from five minutes ago, for computers whose clocks are a little behind.
    params.not_before = (now - Duration::from_secs(300)).into();
    params.not_after = (now + Duration::from_secs(u64::from(days) * 24 * 3600)).into();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}

fn file_error(file: &Path, why: io::Error) -> CertError {
    CertError::File { file: file.to_owned(), why }
}

/// Writes a file that only its owner may read. The file gets its name only once it is complete.
fn write(file: &Path, text: &str) -> Result<(), CertError> {
    let new = file.with_extension("new");
    let written = || {
        // Removes the file of an earlier attempt.
        let _ = fs::remove_file(&new);
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&new, file)
    };
    written().map_err(|why| file_error(file, why))
}
