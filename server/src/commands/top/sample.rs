//! A sample of a cell: the status of each replica.

use crate::commands::call::Caller;
use crate::commands::{CommandArgs, CommandError};
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::{Address, convert, proto};
use omega_core::Kinds;
use std::collections::BTreeMap;
use std::time::Duration;

/// Timeout of each replica, if there are several. If a replica does not answer, the sample lacks its counters.
const PATIENCE: Duration = Duration::from_millis(900);

/// Maximum number of pending jobs shown.
const WAITING_MAX: u32 = 10;

/// Connections to a cell, and to each of its replicas separately.
#[derive(Debug)]
pub(super) struct Watched {
    all: Caller,
    each: Vec<(String, Caller)>,
}

/// A sample of the cell: totals, and the statistics of each replica.
#[derive(Debug)]
pub(super) struct Sample {
    /// Resource kinds of the cell.
    pub(super) kinds: Kinds,
    /// Description of the cell.
    pub(super) description: proto::DescribeCellResponse,
    /// State reported by each replica that answered, by address.
    pub(super) statistics: BTreeMap<String, proto::GetStatisticsResponse>,
    /// Addresses of replicas that did not answer.
    pub(super) silent: Vec<String>,
    /// Jobs with pending tasks, the oldest first.
    pub(super) waiting: Vec<proto::JobStatus>,
}

impl Watched {
    /// Prepares a connection to the whole cell, and one to each replica.
    ///
    /// # Errors
    /// If the address is invalid.
    pub(super) fn new(common: &CommandArgs) -> Result<Watched, CommandError> {
        let address = common.call.cell.address()?;
        let patience = if address.replicas.len() > 1 { PATIENCE } else { common.call.timeout };
        let one = |replica: &String| {
            let alone = Address { replicas: vec![replica.clone()], tls: address.tls.clone() };
            Ok((replica.clone(), Caller::new(&alone, patience)?))
        };
        let each = address.replicas.iter().map(one).collect::<Result<_, CommandError>>()?;
        Ok(Watched { all: common.caller()?, each })
    }

    /// Takes one sample.
    ///
    /// # Errors
    /// If the cell does not answer, or rejects the request.
    pub(super) fn sample(&self) -> Result<Sample, CommandError> {
        let description = self.all.describe()?;
        let request = proto::ListJobsRequest {
            waiting: true,
            page_size: WAITING_MAX,
            ..proto::ListJobsRequest::default()
        };
        let waiting = self.all.call(&request, |channel, request| async move {
            JobServiceClient::new(channel).list_jobs(request).await
        })?;
        let replies: Vec<_> = std::thread::scope(|scope| {
            let requests =
                self.each.iter().map(|(at, caller)| (at, scope.spawn(|| statistics(caller))));
            let requests: Vec<_> = requests.collect();
            let reply = requests.into_iter().map(|(at, asking)| {
                (at, asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            });
            reply.collect()
        });
        let mut look = Sample {
            kinds: convert::kinds(description.kinds.clone())?,
            description,
            statistics: BTreeMap::new(),
            silent: Vec::new(),
            waiting: waiting.jobs,
        };
        for (at, reply) in replies {
            match reply {
                Ok(reply) => drop(look.statistics.insert(at.clone(), reply)),
                Err(CommandError::NoAnswer { .. } | CommandError::NoCell(_)) => {
                    look.silent.push(at.clone())
                }
                Err(error) => return Err(error),
            }
        }
        Ok(look)
    }
}

fn statistics(caller: &Caller) -> Result<proto::GetStatisticsResponse, CommandError> {
    caller.call(&proto::GetStatisticsRequest {}, |channel, request| async move {
        CellServiceClient::new(channel).get_statistics(request).await
    })
}
