//! Errors of TOML, JSON and YAML parsers in plain words.
//!
//! The parsers name types of Rust: "invalid type: integer `80`, expected struct PortFile".

/// Returns a parser's error text in plain words. `map` is the format's word for a map with its article, for example
/// `a table`. In texts of another form, only `unknown variant` is replaced.
#[must_use]
pub fn in_plain_words(message: &str, map: &str) -> String {
    let found = |kind: &str| Some(message.strip_prefix(kind)?.split_once(", expected "));
    let Some((given, expected)) =
        found("invalid type: ").or_else(|| found("invalid value: ")).flatten()
    else {
        return message.replace("unknown variant", "unknown value");
    };
    format!("must be {}, not {}", wanted(expected, map), value(given, map))
}

/// Words for the value that a document has.
fn value(given: &str, map: &str) -> String {
    let (kind, literal) = given.split_once([' ', '`']).unwrap_or((given, ""));
    let literal = literal.rsplit('`').find(|part| !part.is_empty() && !part.starts_with(" as "));
    match (kind, literal) {
        ("map", _) => map.into(),
        ("sequence", _) => "a list".into(),
        ("null" | "unit", _) => "nothing".into(),
        ("integer" | "floating" | "boolean" | "character", Some(literal)) => {
            literal.trim_start_matches("point `").into()
        }
        ("string", Some(literal)) => format!("the text {literal}"),
        _ => given.into(),
    }
}

/// Words for the value that a document should have.
fn wanted(expected: &str, map: &str) -> String {
    let whole = |most: u64| format!("a whole number from 0 to {most}");
    match expected {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" | "u128" => "a whole number from 0".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" | "i128" => "a whole number".into(),
        "a nonzero u8" | "a nonzero u16" | "a nonzero u32" | "a nonzero u64"
        | "a nonzero usize" => "a whole number from 1".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" | "a borrowed string" => "a text".into(),
        "a sequence" => "a list".into(),
        "a map" => map.into(),
        expected if expected.starts_with("struct ") => map.into(),
        expected if expected.starts_with("tuple ") => "a list".into(),
        expected => expected.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::in_plain_words;

    #[test]
    fn types_of_rust_are_not_shown() {
        for (message, expected) in [
            ("invalid type: integer `80`, expected struct PortFile", "must be a table, not 80"),
            (
                "invalid value: integer `-3`, expected u32",
                "must be a whole number from 0 to 4294967295, not -3",
            ),
            ("invalid type: map, expected a sequence", "must be a list, not a table"),
            (
                "invalid type: floating point `0.5`, expected u64",
                "must be a whole number from 0, not 0.5",
            ),
            (
                "invalid type: string \"a, b\", expected i64",
                "must be a whole number, not the text \"a, b\"",
            ),
            ("invalid type: boolean `true`, expected a string", "must be a text, not true"),
            ("invalid type: null, expected a map", "must be a table, not nothing"),
            (
                "invalid type: integer `99999999999999999999` as i128, expected u16",
                "must be a whole number from 0 to 65535, not 99999999999999999999",
            ),
            ("invalid type: sequence, expected a quantity", "must be a quantity, not a list"),
            ("unknown variant `a`, expected `b`", "unknown value `a`, expected `b`"),
            ("missing field `name`", "missing field `name`"),
        ] {
            assert_eq!(in_plain_words(message, "a table"), expected, "{message}");
        }
    }
}
