//! Flags for amounts of a cell's resource kinds, and for times: `--cpu 500m`, `--memory 16GiB`, `30s`.

use crate::commands::CommandError;
use crate::duration::duration;
use clap::Args;
use omega_core::{Amounts, KindId, Kinds, Unit};
use std::time::Duration;

pub(crate) use omega_workload::amount::{Amount, AmountError};

/// Longest timeout of a call: servers allow no more.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// The kind with this name, if it can be overcommitted.
pub(in crate::commands) fn overcommitted(
    kinds: &Kinds,
    place: String,
    name: &str,
) -> Result<KindId, CommandError> {
    let id = kind(kinds, place.clone(), name)?;
    if kinds.get(id).is_some_and(|kind| kind.compressible) {
        return Ok(id);
    }
    let can = kinds.iter().filter(|(_, kind)| kind.compressible);
    let can: Vec<&str> = can.map(|(_, kind)| kind.name.as_str()).collect();
    let why = format!(
        "{name} cannot be overcommitted, because a task that gets too little of it fails; only {} \
         can be overcommitted",
        can.join(", ")
    );
    Err(CommandError::Field { place, why })
}

/// An amount of one kind, by name: `KIND=AMOUNT`.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    kind: String,
    amount: Amount,
}

pub(crate) fn named(text: &str) -> Result<Named, String> {
    let wrong = || format!("{text:?} must be KIND=AMOUNT, such as disk=2TiB");
    let (kind, amount) = text.split_once('=').ok_or_else(wrong)?;
    let amount = amount.parse().map_err(|error: AmountError| error.to_string())?;
    Ok(Named { kind: kind.to_owned(), amount })
}

impl Named {
    /// The text that names the amount in error messages (the flag and the kind), the kind, and the amount.
    pub(crate) fn by(&self, flag: &str) -> (String, String, &Amount) {
        (format!("{flag} {}", self.kind), self.kind.clone(), &self.amount)
    }
}

/// Amounts of a cell's resource kinds.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AmountArgs {
    /// Processors: cores such as 2 or 0.5, or thousandths of a core such as 500m.
    #[arg(long, value_name = "CORES", allow_negative_numbers = true)]
    cpu: Option<Amount>,
    /// Memory, such as 16GiB or 16GB; without a unit, bytes.
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    memory: Option<Amount>,
    /// Local disk, such as 2TiB or 2TB; without a unit, bytes.
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    disk: Option<Amount>,
    /// GPUs: devices such as 2 or 0.5, or thousandths of a device such as 500m.
    #[arg(long, value_name = "DEVICES", allow_negative_numbers = true)]
    gpu: Option<Amount>,
    /// Amount of another resource kind of the cell. May be repeated.
    #[arg(long = "amount", value_name = "KIND=AMOUNT", value_parser = named)]
    amounts: Vec<Named>,
}

impl AmountArgs {
    /// The given amounts. Each comes with the text that names it in error messages, and with the name of its kind.
    pub(crate) fn named(&self) -> Vec<(String, String, &Amount)> {
        let short = [
            ("cpu", &self.cpu),
            ("memory", &self.memory),
            ("disk", &self.disk),
            ("gpu", &self.gpu),
        ];
        let short = short.into_iter().filter_map(|(kind, amount)| {
            Some((format!("--{kind}"), kind.to_owned(), amount.as_ref()?))
        });
        short.chain(self.amounts.iter().map(|named| named.by("--amount"))).collect()
    }
}

/// Converts amounts, given by the names of their kinds, to the units of the cell. Kinds that are not named get `rest`.
///
/// # Errors
/// If the cell has no such kind, or the unit does not match the kind.
pub(crate) fn amounts<'a>(
    kinds: &Kinds,
    named: impl IntoIterator<Item = (String, String, &'a Amount)>,
    rest: u64,
) -> Result<Amounts, CommandError> {
    let mut values = vec![rest; kinds.count()];
    for (place, kind, amount) in named {
        let id = self::kind(kinds, place.clone(), &kind)?;
        let unit = kinds.get(id).map_or(Unit::Count, |kind| kind.unit);
        values[id.index()] = amount.of(unit).map_err(|why| CommandError::Amount { place, why })?;
    }
    Ok(Amounts::new(values))
}

/// The kind with this name.
///
/// # Errors
/// If the cell has no such kind.
pub(crate) fn kind(kinds: &Kinds, place: String, name: &str) -> Result<KindId, CommandError> {
    kinds.by_name(name).ok_or_else(|| {
        let has: Vec<&str> = kinds.iter().map(|(_, kind)| kind.name.as_str()).collect();
        CommandError::NoKind { place, kind: name.to_owned(), has: has.join(", ") }
    })
}

/// Smallest number of bytes of a machine that may be written without a unit.
const MACHINE_BYTES_MIN: u64 = 1 << 20;

/// Converts the bytes of a machine.
pub(crate) fn of_machine(amount: &Amount) -> Result<u64, String> {
    let bytes = amount.of(Unit::Bytes).map_err(|error| error.to_string())?;
    if !amount.has_unit() && (1..MACHINE_BYTES_MIN).contains(&bytes) {
        return Err(format!(
            "{bytes} has no unit, so it is in bytes: write {bytes}GiB or {bytes}B"
        ));
    }
    Ok(bytes)
}

/// Parses the memory of an agent's machine, such as `64GiB`.
pub(crate) fn machine_bytes(text: &str) -> Result<u64, String> {
    let bytes = of_machine(&text.parse().map_err(|error: AmountError| error.to_string())?)?;
    if bytes < MACHINE_BYTES_MIN {
        return Err(format!("{text} must be at least 1MiB, such as 16GiB"));
    }
    Ok(bytes)
}

/// Parses the timeout of a call.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() || time > TIMEOUT_MAX {
        Err(format!("{text} must be more than 0s and at most {TIMEOUT_MAX:?}"))
    } else {
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert!(duration("30").is_err() && duration("s").is_err() && duration("1y").is_err());
        assert!(machine_bytes("0").is_err() && machine_bytes("5B").is_err());
        assert_eq!(machine_bytes("2GiB"), Ok(2 << 30));
        assert!(timeout("0s").is_err() && timeout("61s").is_err() && timeout("60s").is_ok());
    }
}
