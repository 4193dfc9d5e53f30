//! `omega backup`: the whole state of a cell in one file, from which `omega restore` creates a new cell.
//!
//! The pieces are written to a temporary file, which gets its final name only after every byte was read again and
//! checked. So a file with the final name is a valid backup. If the stream breaks, it is restarted at the next replica.

use crate::commands::call::{Caller, another_try_may_help};
use crate::commands::show::{self, facts};
use crate::commands::{CommandArgs, CommandError};
use clap::Args;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::{ApiError, ErrorCode, proto};
use omega_store::backup::{BackupError, check, folder_of};
use omega_store::snapshot::{BackupContent, piece_checksum};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of attempts to receive a backup, if the stream breaks.
const TRIES: usize = 3;

/// Timeout for a piece. It is the same as the time after which the cell drops a slow reader.
const PIECE_MAX: Duration = Duration::from_secs(30);

/// Target of a backup, or the file to check.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  omega backup cell.backup\n  omega backup --verify cell.backup"
)]
pub(crate) struct BackupArgs {
    /// File to write, or to check with --verify. An existing file is replaced when the new one is complete.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Check every byte of an existing backup and print a summary, without calling a cell.
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    common: CommandArgs,
}

/// Contents of a backup.
#[derive(Debug, Serialize)]
pub(crate) struct BackupShape {
    file: PathBuf,
    /// Id of the cell that was backed up.
    cell: String,
    version: u64,
    bytes: u64,
    machines: usize,
    jobs: usize,
    /// State hash of the backup. Every replica of the cell has this hash after the last log entry that the backup
    /// includes. The version does not identify that entry, because some entries change the state without a new version.
    state_hash: String,
}

impl BackupShape {
    pub(crate) fn new(file: &Path, content: &BackupContent) -> BackupShape {
        BackupShape {
            file: file.to_owned(),
            cell: content.from.to_string(),
            version: content.cell.version().0,
            bytes: content.bytes,
            machines: content.cell.machines().count(),
            jobs: content.cell.jobs().count(),
            state_hash: format!("{:016x}", content.cell.state_hash()),
        }
    }

    fn table(&self) -> String {
        facts(&[
            ("file", self.file.display().to_string()),
            ("cell", self.cell.clone()),
            ("version", self.version.to_string()),
            ("bytes", self.bytes.to_string()),
            ("machines", self.machines.to_string()),
            ("jobs", self.jobs.to_string()),
            ("state hash", self.state_hash.clone()),
        ])
    }
}

/// Runs the command.
pub(crate) fn run(args: &BackupArgs) -> Result<(), CommandError> {
    let content = if args.verify { check(&args.file)? } else { take(args)? };
    let shape = BackupShape::new(&args.file, &content);
    show::print(args.common.output, &shape, || shape.table())
}

fn take(args: &BackupArgs) -> Result<BackupContent, CommandError> {
    // The backup replaces its file, which would remove a device or a pipe of this name.
    if fs::metadata(&args.file).is_ok_and(|found| !found.is_file()) {
        let why = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        return Err(BackupError::Write { file: args.file.clone(), why }.into());
    }
    let caller = args.common.caller()?;
    let partial = partial(&args.file);
    let failed = |why| BackupError::Write { file: partial.clone(), why };
    let mut tries = 1;
    let (file, version) = loop {
        let mut file = begin(&partial).map_err(failed)?;
        match caller.runtime().block_on(receive(&caller, &mut file, &partial)) {
            Ok(version) => break (file, version),
            Err(CommandError::Refused(why)) if another_try_may_help(&why) && tries < TRIES => {
                tries += 1;
                caller.runtime().block_on(caller.go_on());
            }
            Err(error) => {
                // If the incomplete file cannot be removed, its temporary name shows that it is not a backup.
                let _ = fs::remove_file(&partial);
                return Err(error);
            }
        }
    };
    file.sync_all().map_err(failed)?;
    drop(file);
    let content = check(&partial)?;
    if content.cell.version().0 != version {
        return Err(BackupError::Pieces(partial).into());
    }
    publish(&partial, &args.file)
        .map_err(|why| BackupError::Write { file: args.file.clone(), why })?;
    Ok(content)
}

/// The temporary name of a backup that is not complete.
fn partial(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// Creates a file that only its owner may read.
fn begin(partial: &Path) -> io::Result<File> {
    // Removes the file of an earlier attempt.
    match fs::remove_file(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(partial)
}

/// Gives a complete file its final name. The name survives a loss of power.
fn publish(partial: &Path, file: &Path) -> io::Result<()> {
    fs::rename(partial, file)?;
    File::open(folder_of(file))?.sync_all()
}

/// Writes every piece at its offset. Returns the version of the cell.
async fn receive(caller: &Caller, file: &mut File, partial: &Path) -> Result<u64, CommandError> {
    let mut pieces = caller
        .call_async(&proto::BackupRequest {}, |channel, mut request| async move {
            // A timeout would apply to the whole stream, so none is set.
            request.metadata_mut().remove("grpc-timeout");
            CellServiceClient::new(channel).backup(request).await
        })
        .await?;
    let cut_short = || {
        let say = "the backup is incomplete, because the connection ended: try again";
        CommandError::Refused(ApiError::new(ErrorCode::OutcomeUnknown, say))
    };
    let mut received = 0;
    loop {
        let piece = match tokio::time::timeout(PIECE_MAX, pieces.message()).await {
            Ok(Ok(Some(piece))) => piece,
            Ok(Ok(None)) | Err(_) => return Err(cut_short()),
            Ok(Err(status)) => return Err(CommandError::Refused(ApiError::from(status))),
        };
        if piece_checksum(piece.offset, &piece.data) != piece.crc32 {
            return Err(BackupError::Pieces(partial.to_owned()).into());
        }
        let written =
            file.seek(SeekFrom::Start(piece.offset)).and_then(|_| file.write_all(&piece.data));
        written.map_err(|why| BackupError::Write { file: partial.to_owned(), why })?;
        received += piece.data.len() as u64;
        if piece.length > 0 {
            return if piece.length == received { Ok(piece.version) } else { Err(cut_short()) };
        }
    }
}
