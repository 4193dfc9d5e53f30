//! The tenant service: configuration, quotas and usage.

use crate::access::grants::caller;
use crate::host::{Host, done};
use crate::service::{Room, RpcResult, deadline, page_start, page_token};
use omega_cellstate::Cell;
use omega_client::proto::tenant_service_server::TenantService;
use omega_client::{convert, proto};
use omega_core::{Amounts, Command, TenantConfig, Text};
use tonic::{Request, Response};

/// The tenant service.
#[derive(Clone, Debug)]
pub struct Tenants {
    host: Host,
}

impl Tenants {
    /// The service of a cell.
    #[must_use]
    pub fn new(host: Host) -> Tenants {
        Tenants { host }
    }
}

#[tonic::async_trait]
impl TenantService for Tenants {
    async fn set_quota(
        &self,
        request: Request<proto::SetQuotaRequest>,
    ) -> RpcResult<proto::SetQuotaResponse> {
        crate::access::audited::about(&request, |request| request.tenant.clone());
        let until = deadline(&request);
        let request = request.into_inner();
        let limit = request.quota.map(|quota| convert::amounts(quota.limit));
        let command = Command::SetQuota { tenant: request.tenant.into(), limit };
        let version = done(self.host.apply(command, until).await?)?;
        Ok(Response::new(proto::SetQuotaResponse { version: version.0 }))
    }

    async fn set_tenant(
        &self,
        request: Request<proto::SetTenantRequest>,
    ) -> RpcResult<proto::SetTenantResponse> {
        crate::access::audited::about(&request, |request| request.tenant.clone());
        let until = deadline(&request);
        let request = request.into_inner();
        let tenant_config = convert::tenant_config(request.config);
        let command = Command::SetTenant { tenant: request.tenant.into(), tenant_config };
        let version = done(self.host.apply(command, until).await?)?;
        Ok(Response::new(proto::SetTenantResponse { version: version.0 }))
    }

    async fn set_admission(
        &self,
        request: Request<proto::SetAdmissionRequest>,
    ) -> RpcResult<proto::SetAdmissionResponse> {
        crate::access::audited::about(&request, |request| request.tenant.clone());
        let until = deadline(&request);
        let request = request.into_inner();
        let limit = request.limit.map(|limit| convert::amounts(limit.limit));
        let command = Command::SetAdmission { tenant: request.tenant.into(), limit };
        let version = done(self.host.apply(command, until).await?)?;
        Ok(Response::new(proto::SetAdmissionResponse { version: version.0 }))
    }

    async fn list_tenants(
        &self,
        request: Request<proto::ListTenantsRequest>,
    ) -> RpcResult<proto::ListTenantsResponse> {
        let caller = caller(&request)?;
        self.host.refresh(deadline(&request)).await?;
        let request = request.into_inner();
        let start = page_start(&request.page_token)? as usize;
        let mut room = Room::of_page(request.page_size);
        let answer = self.host.read(|cell| {
            let mut rest =
                cell.tenants().filter(|(name, ..)| caller.may_see_tenant(name)).skip(start);
            let mut tenants = Vec::new();
            while !room.is_full()
                && let Some((name, quota, used)) = rest.next()
            {
                tenants.push(room.take(described(cell, name, quota, used)));
            }
            let next_page_token = match rest.next() {
                Some(_) => page_token((start + tenants.len()) as u64),
                None => String::new(),
            };
            proto::ListTenantsResponse { tenants, next_page_token, version: cell.version().0 }
        });
        Ok(Response::new(answer))
    }
}

/// Message with a tenant's configuration and usage.
fn described(
    cell: &Cell,
    name: &Text,
    quota: Option<&Amounts>,
    used: &[i64],
) -> proto::TenantStatus {
    let limit = |limit: &Amounts| proto::Quota { limit: convert::values(limit) };
    proto::TenantStatus {
        name: name.to_string(),
        quota: quota.map(limit),
        used: used.iter().map(|used| (*used).max(0) as u64).collect(),
        config: cell.tenant_config(name).filter(|s| **s != TenantConfig::default()).map(Into::into),
        admission: cell.admission(name).map(limit),
        requested: cell.requested(name).unwrap_or_default(),
    }
}
