//! The functions of policies that need the whole cell: they check and record transactions, and apply the configuration
//! of a tenant.

use super::list::{Notes, policy_list};
use super::set::Listed;
use super::{Policies, Policy, PolicySet};
use crate::cell::Cell;
use crate::commit::Review;
use omega_core::{Conflict, TenantConfig, Text};

/// A policy in the cell.
pub trait CellPolicy: Policy {
    /// Checks a transaction as a whole, and adds a conflict for each item that must be rejected. The commit then undoes
    /// all steps and checks the transaction again without those items.
    fn check_all(
        _cell: &Cell,
        _review: &Review<'_>,
        _note: &mut Self::Note,
        _late: &mut Vec<Conflict>,
    ) {
    }

    /// Updates the policy after a transaction was committed, or was rejected as a whole.
    fn settle(_cell: &mut Cell, _review: &Review<'_>, _note: Self::Note) {}

    /// Applies a tenant's configuration. The caller has begun a version.
    fn configure_tenant(_cell: &mut Cell, _name: &Text, _config: &TenantConfig) {}
}

/// Implements the calls of these functions for all policies.
macro_rules! cell_policies {
    ($($(#[$doc:meta])* $name:ident: $module:ident::$state:ident $(with $columns:ident)?,)+) => {
        // Not inlined, so that a commit that concerns no policy is short.
        impl Policies {
            /// Calls `CellPolicy::check_all` of the policies that concern a transaction.
            #[inline(never)]
            pub fn check_all(
                cell: &Cell,
                review: &Review<'_>,
                met: PolicySet,
                notes: &mut Notes,
                late: &mut Vec<Conflict>,
            ) {
                $(if met.has(<super::$module::$state as Listed>::BIT) {
                    <super::$module::$state>::check_all(cell, review, &mut notes.$name, late);
                })+
            }

            /// Calls `CellPolicy::settle` of the policies that concern a transaction.
            #[inline(never)]
            pub fn settle(cell: &mut Cell, review: &Review<'_>, met: PolicySet, notes: Notes) {
                $(if met.has(<super::$module::$state as Listed>::BIT) {
                    <super::$module::$state>::settle(cell, review, notes.$name);
                })+
            }

            /// Applies a tenant's configuration.
            pub fn configure_tenant(cell: &mut Cell, name: &Text, config: &TenantConfig) {
                $(<super::$module::$state>::configure_tenant(cell, name, config);)+
            }
        }
    };
}

policy_list!(cell_policies);
