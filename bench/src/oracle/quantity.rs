//! Suite `quantity`: values and canonical forms of texts such as `1.5Gi`.

use crate::oracle::canonical::canonical;
use crate::oracle::difference::Found;
use omega_workload::kube::quantity::Quantity;
use serde::Deserialize;

/// A text, and its value.
#[derive(Deserialize)]
pub(super) struct Case {
    r#in: String,
    #[serde(default)]
    error: bool,
    /// Integer value, rounded up.
    value: Option<i64>,
    /// Value in thousandths, rounded up.
    #[serde(rename = "milliValue")]
    milli_value: Option<i64>,
    /// Canonical form in Kubernetes.
    canonical: Option<String>,
}

/// Compares the parsed value with the recorded one.
pub(super) fn replay(case: &Case) -> Found {
    let mut found = Found::default();
    let quantity = Quantity::parse(&case.r#in);
    found.compare("error", &case.error, &quantity.is_err());
    if let (Ok(quantity), false) = (quantity, case.error) {
        compare(&mut found, "value", case.value, quantity.value());
        compare(&mut found, "milliValue", case.milli_value, quantity.milli_value());
        if case.canonical.is_some() {
            found.compare("canonical", &case.canonical, &canonical(&case.r#in).ok());
        }
    }
    found
}

/// Compares a number with Kubernetes' 64-bit result. For a larger number, Kubernetes returns the low 64 bits or 0,
/// depending on how the quantity was written. The adapter caps such amounts, so this only checks that the value before
/// the cap is right.
fn compare(found: &mut Found, field: &str, expected: Option<i64>, got: i128) {
    let same = match i64::try_from(got) {
        Ok(got) => expected == Some(got),
        Err(_) => expected == Some(0) || expected == Some(got as i64),
    };
    if !same {
        let expected = expected.map_or("nothing".to_owned(), |value| value.to_string());
        found.note(field, expected, got.to_string());
    }
}
