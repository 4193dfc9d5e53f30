//! The last stage before the program: a process that limits itself, and then becomes the program.
//!
//! This process sets the limits, the session and the user. To set them between `fork` and `exec` would need unsafe
//! code.

use crate::cgroup::Cgroup;
use crate::container;
use crate::limits;
use crate::spec::{self, FOLDER_VARIABLE, TaskSpec, WORK};
use crate::start_pipe::READY;
use crate::task_files::files;
use crate::users::{self, User};
use omega_core::Probe;
use rustix::fs::{FileType, Mode};
use rustix::process::{Gid, Signal, Uid};
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Exit code of a stage that could not become the program. Shells use this code, too.
pub const CANNOT_START: u8 = 127;

/// Folders in which a program is looked up if its name has no path.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Replaces this process with the program of a task. Returns only if this fails. The reason is then written to standard
/// input, which is a pipe to the supervisor.
pub(crate) fn program(folder: &Path) -> io::Result<()> {
    // The program does not inherit this copy of the pipe.
    let mut reason = fs::File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let done = read_spec(folder).and_then(|spec| match &spec.container {
        Some(container) => container::become_run(folder, &spec, container),
        None => {
            let program = prepare(folder, &spec, &spec.command, &spec.args)?;
            reason.write_all(&[READY])?;
            become_program(program)
        }
    });
    if let Err(why) = &done {
        // If this fails, the reason is only in the output of the task.
        let _ = write!(reason, "{why}");
    }
    done
}

/// Replaces this process with the command of a task's health check. Returns only if this fails.
pub(crate) fn probe(folder: &Path) -> io::Result<()> {
    let spec = read_spec(folder)?;
    let Some(Probe::Command(words)) = spec.health.as_ref().map(|health| &health.probe) else {
        return Err(io::Error::other(
            "this program runs the command of a task's health check, but the task has none: do not \
             start it by hand, because the task's supervisor starts it",
        ));
    };
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    match words.split_first() {
        _ if spec.container.is_some() => container::become_exec(folder, &spec.id, &words),
        Some((command, args)) => become_program(prepare(folder, &spec, command, args)?),
        None => become_program(prepare(folder, &spec, "", &[])?),
    }
}

fn read_spec(folder: &Path) -> io::Result<TaskSpec> {
    spec::read(folder)?.ok_or_else(|| {
        io::Error::other(
            "the folder contains no description of a task: do not start this program by hand, \
             because the task's supervisor starts it",
        )
    })
}

/// Limits this process, and changes its user. Returns the program that it is to become.
fn prepare(folder: &Path, spec: &TaskSpec, command: &str, args: &[String]) -> io::Result<Command> {
    rustix::process::setsid()?;
    if let Some(cgroup) = &spec.limits.cgroup {
        Cgroup::at(cgroup).enter()?;
    }
    limits::set(spec)?;
    limits::be_killed_before_the_agent();
    let user = spec.user.as_deref().map(users::find).transpose()?;
    let work = working_dir(folder, spec, user.as_ref())?;
    let home = user.as_ref().map_or_else(users::own_home, |user| user.home.clone());
    let mut program = Command::new(command);
    program.args(args).env_clear().env("PATH", PATH).env("HOME", home);
    program.envs(spec.env.iter().map(|(name, value)| (name, value)));
    program.env(FOLDER_VARIABLE, folder).stdin(Stdio::null());
    if let Some(user) = &user {
        give_output(user)?;
        let gids: Vec<_> = user.groups.iter().map(|id| Gid::from_raw(*id)).collect();
        rustix::thread::set_thread_groups(&gids)?;
        rustix::thread::set_thread_gid(Gid::from_raw(user.gid))?;
        rustix::thread::set_thread_uid(Uid::from_raw(user.uid))?;
    }
    // Makes the kernel kill this process when its supervisor dies, because the task would otherwise run unwatched. This
    // comes after the change of the user, which would clear the setting.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_no_new_privs(true)?;
    // The directory is entered with the rights of the task's user, who may have no access to it.
    std::env::set_current_dir(&work).map_err(|why| {
        io::Error::new(why.kind(), format!("working directory {}: {why}", work.display()))
    })?;
    Ok(program)
}

/// Replaces this process with a program. Returns only if this fails.
fn become_program(mut program: Command) -> io::Result<()> {
    let why = program.exec();
    let command = program.get_program().display();
    Err(io::Error::new(why.kind(), format!("{command}: {why}")))
}

/// Makes the user of the task the owner of the pipes for its output. Otherwise, its programs could write to them, but
/// not open them as `/dev/stdout` and `/dev/stderr`.
fn give_output(user: &User) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let (out, err) = (io::stdout(), io::stderr());
    for pipe in [out.as_fd(), err.as_fd()] {
        // The output of a health check is `/dev/null`.
        if FileType::from_raw_mode(rustix::fs::fstat(pipe)?.st_mode) == FileType::Fifo {
            rustix::fs::fchown(pipe, Some(uid), Some(gid))?;
        }
    }
    Ok(())
}

/// The working directory of the program. By default, this is the task's own directory, whose owner becomes the user of
/// the task.
fn working_dir(folder: &Path, spec: &TaskSpec, user: Option<&User>) -> io::Result<PathBuf> {
    if let Some(named) = &spec.working_dir {
        return Ok(named.clone());
    }
    let own = folder.join(WORK);
    let made = files::make_folder(&own, Mode::from_raw_mode(0o777))?;
    if let Some(user) = user {
        let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
        rustix::fs::fchown(made.folder, Some(uid), Some(gid))?;
    }
    Ok(own)
}
