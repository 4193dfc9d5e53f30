//! The published figures, and the tolerance of the comparison.

use super::policy::Policy;
use super::run::LOADS_PERCENT;
use omega_workload::LoadError;
use omega_workload::compressed::stored;
use omega_workload::decimal::Rounding;
use omega_workload::table::Table;
use std::collections::HashMap;
use std::path::Path;

/// Mean allocation at each load by list and policy, in percent of all devices.
#[derive(Clone, Debug, Default)]
pub struct Published(HashMap<(String, String), [f64; LOADS_PERCENT.len()]>);

impl Published {
    /// Reads the table in a folder of the trace. The result is empty if the folder has no table.
    ///
    /// # Errors
    /// If the table is invalid.
    pub fn read(dir: &Path) -> Result<Published, LoadError> {
        let file = stored(&dir.join("published_fgd_table.csv"));
        if !file.is_file() {
            return Ok(Published::default());
        }
        let mut table = Table::open(&file)?;
        let [list, policy] = table.find(["workload", "policy"])?;
        let names = LOADS_PERCENT.map(|load| format!("alloc{load}_mean"));
        let columns = names.each_ref().map(|name| table.column(name));
        let mut rows = HashMap::new();
        while let Some(row) = table.next_row()? {
            let mut used = [0.0; LOADS_PERCENT.len()];
            for (used, column) in used.iter_mut().zip(&columns) {
                let column = column.clone()?;
                *used = row.amount(column, 1000, Rounding::Nearest)? as f64 / 1000.0;
            }
            let list = row.required(list)?;
            let list = list.strip_prefix("openb_pod_list_").unwrap_or(list);
            rows.insert((list.to_owned(), row.required(policy)?.to_owned()), used);
        }
        Ok(Published(rows))
    }

    /// Whether there are no published results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Published result of a policy on a list.
    #[must_use]
    pub fn used(&self, list: &str, policy: Policy) -> Option<&[f64; LOADS_PERCENT.len()]> {
        self.0.get(&(list.to_owned(), policy.published_name()?.to_owned()))
    }
}

/// Tolerance of a mean in percentage points. The mean over ten seeds varies randomly by one or two tenths of a point.
/// Policies that the publication defines completely get half the tolerance of the others.
#[must_use]
pub fn tolerance(policy: Policy) -> f64 {
    match policy {
        Policy::Random | Policy::BestFit => 0.5,
        _ => 1.0,
    }
}
