//! Calls of a served cell without a command.

use crate::kit::wait::insist;
use omega_client::ApiError;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::{self, job_ref};
use omega_core::{Amounts, Job, Machine, TaskGroup};
use tokio::runtime::Runtime;

pub(crate) fn unavailable(error: tonic::transport::Error) -> ApiError {
    tonic::Status::unavailable(error.to_string()).into()
}

pub(crate) async fn describe(url: String) -> Result<proto::DescribeCellResponse, ApiError> {
    let mut client = CellServiceClient::connect(url).await.map_err(unavailable)?;
    Ok(client.describe_cell(proto::DescribeCellRequest {}).await?.into_inner())
}

pub(crate) fn add_machines(runtime: &Runtime, url: &str, count: u32, capacity: [u64; 2]) {
    for i in 0..count {
        let machine = Machine::new(format!("m{i}"), Amounts::new(capacity));
        let request = proto::RegisterMachineRequest { machine: Some((&machine).into()) };
        insist(|| {
            runtime.block_on(async {
                let mut client =
                    MachineServiceClient::connect(url.to_owned()).await.map_err(unavailable)?;
                Ok(client.register_machine(request.clone()).await?)
            })
        });
    }
}

pub(crate) fn submit(runtime: &Runtime, url: &str, name: &str, tasks: TaskGroup) -> u64 {
    submit_job(runtime, url, &Job::batch(name, tasks))
}

pub(crate) fn submit_job(runtime: &Runtime, url: &str, job: &Job) -> u64 {
    let request = proto::SubmitJobRequest { job: Some(job.into()) };
    insist(|| {
        runtime.block_on(async {
            let mut client =
                JobServiceClient::connect(url.to_owned()).await.map_err(unavailable)?;
            Ok(client.submit_job(request.clone()).await?.into_inner().id)
        })
    })
}

pub(crate) fn job(runtime: &Runtime, url: &str, id: u64) -> proto::JobStatus {
    let request =
        proto::GetJobRequest { job: Some(proto::JobRef { job: Some(job_ref::Job::Id(id)) }) };
    let answer = insist(|| {
        runtime.block_on(async {
            let mut client =
                JobServiceClient::connect(url.to_owned()).await.map_err(unavailable)?;
            Ok(client.get_job(request.clone()).await?.into_inner())
        })
    });
    answer.job.unwrap()
}
