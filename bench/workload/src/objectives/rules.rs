//! Rules of an objectives file, as entries and as a table.

use super::error::ObjectivesError;
use super::names::level_of;
use crate::text::table::{Row, Table};
use omega_core::Text;
use omega_schedulers::rebalance::aims::rules::{Limit, RULES_MAX, Rule};

use serde::Deserialize;
use std::path::Path;

/// Largest number of tasks or domains in a rule.
const NUMBER_MAX: u32 = 1_000_000;

/// A rule: one of `at-least`, `needs`, or `beside` with `at-most`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RuleEntry {
    job: Text,
    level: Option<String>,
    at_least: Option<u32>,
    needs: Option<Text>,
    beside: Option<Text>,
    at_most: Option<u32>,
}

impl RuleEntry {
    fn rule(&self, index: usize, place: &dyn Fn(&str) -> String) -> Result<Rule, ObjectivesError> {
        let wrong = |why: String| {
            let place = place(&format!("rule[{index}]"));
            ObjectivesError::Aim { place, why }
        };
        let within = |number: u32| match number {
            0..=NUMBER_MAX => Ok(number),
            _ => Err(wrong(format!("{number} is too large; give at most {NUMBER_MAX}"))),
        };
        let limit = match (self.at_least, &self.needs, &self.beside, self.at_most) {
            (Some(least), None, None, None) => Limit::Domains(within(least)?),
            (None, Some(other), None, None) => Limit::Needs(other.clone()),
            (None, None, Some(other), Some(count)) => {
                Limit::MaxColocated { other: other.clone(), count: within(count)? }
            }
            _ => {
                let why = "give one of at-least, needs, or beside with at-most";
                return Err(wrong(format!("of {:?}: {why}", self.job)));
            }
        };
        Ok(Rule { job: self.job.clone(), level: level_of(self.level.as_deref()), limit })
    }
}

/// Converts the rules in an objectives file. `table` is the file that limits how many tasks of a job may be in one
/// domain with tasks of another job.
pub(super) fn rules(
    entries: &[RuleEntry],
    table: Option<&Path>,
    place: &dyn Fn(&str) -> String,
) -> Result<Vec<Rule>, ObjectivesError> {
    let entries = entries.iter().enumerate();
    let rules: Result<Vec<Rule>, ObjectivesError> =
        entries.map(|(index, entry)| entry.rule(index, place)).collect();
    let mut rules = rules?;
    if let Some(file) = table {
        let mut table = Table::open(file)?;
        let [job, beside, at_most] = table.find(["job", "beside", "at_most"])?;
        let level = table.optional_column("level");
        while let Some(row) = table.next_row()? {
            let of_row = |row: Row<'_>| level.map(|column| row.text(column).to_owned());
            let level = of_row(row).filter(|text| !text.is_empty());
            let other = row.required(beside)?.into();
            let count = row.integer(at_most, u64::from(NUMBER_MAX))? as u32;
            rules.push(Rule {
                job: row.required(job)?.into(),
                level: level_of(level.as_deref()),
                limit: Limit::MaxColocated { other, count },
            });
        }
    }
    if rules.len() > RULES_MAX {
        let why = format!("has {} rules with its table; give at most {RULES_MAX}", rules.len());
        return Err(ObjectivesError::Aim { place: place("rule"), why });
    }
    Ok(rules)
}
