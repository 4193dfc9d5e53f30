//! Work on a served cell: jobs, programs, agents, applications and schedulers.
//!
//! - `commands.rs`: commands for a served cell; `quickstart.rs`: the commands of the quickstart
//!   page.
//! - `wrong_files.rs`: units, programs and numbers of jobs that are wrong; `completion.rs`: names that shells complete.
//! - `apply.rs`: jobs in files, and services that are updated from one version to the next.
//! - `contexts.rs`: cells by name, and how lists are sorted, filtered and printed.
//! - `txn.rs`: transactions by hand, and recorded results of transactions.
//! - `updates.rs`: services that are updated under load, rolled back, and evacuated; `update_faults.rs`: updates while
//!   leaders and agents are killed.
//! - `programs.rs`: real programs, with agents that are killed and restarted.
//! - `array_faults.rs`: a batch array while agents, leaders and schedulers are killed.
//! - `own_driver.rs`: the example of an agent with a driver of its own.
//! - `podman.rs`: programs in containers; skipped where Podman cannot run any.
//! - `ports.rs`: ports that the cell chooses for programs.
//! - `agents.rs`: jobs on simulated machines, while agents, schedulers and leaders are killed.
//! - `grace.rs`: grace periods of stopped tasks, and tasks that wait for their resources.
//! - `application.rs`: applications that request containers, and recover them.
//! - `standby.rs`: schedulers that are killed, paused or stopped, and their standbys.
//! - `quotas.rs`: limits of tenants by command.
//! - `peaks.rs`: peak calendars by command, and a peak controller with a scheduler.
//! - `cores.rs`, `resources.rs`: exclusive cores, and cluster resources.
//! - `evicting.rs`: preemption in a full cell.
//! - `services.rs`: the machines of a service's tasks.
//! - `supervisors.rs`: the program that supervises tasks.

pub(crate) mod agents;
pub(crate) mod application;
pub(crate) mod apply;
pub(crate) mod array_faults;
pub(crate) mod commands;
pub(crate) mod completion;
pub(crate) mod contexts;
pub(crate) mod cores;
pub(crate) mod evicting;
pub(crate) mod grace;
pub(crate) mod own_driver;
pub(crate) mod peaks;
pub(crate) mod podman;
pub(crate) mod ports;
pub(crate) mod programs;
pub(crate) mod quickstart;
pub(crate) mod quotas;
pub(crate) mod resources;
pub(crate) mod services;
pub(crate) mod standby;
pub(crate) mod supervisors;
pub(crate) mod txn;
pub(crate) mod update_faults;
pub(crate) mod updates;
pub(crate) mod wrong_files;
